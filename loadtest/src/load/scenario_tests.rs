//! What a scenario may say, and what is refused by name.

use super::*;
use crate::load::summary::Percentiles;

const LEAST: &str = "name = \"n\"\ntarget = \"respond\"\nduration_s = 10\n";

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(text, |path| match path.to_str() {
        Some("day.txt") => Ok("0\n4\n9\n".to_owned()),
        _ => Err(format!("{}: no such file", path.display())),
    })
}

#[test]
fn the_least_scenario_has_defaults_for_the_rest() {
    let scenario = parse(&format!("{LEAST}rate = 2\n")).expect("valid");
    assert_eq!(scenario.rates, [2.0]);
    assert_eq!(scenario.arrivals, Arrivals::Poisson);
    assert_eq!(scenario.texts, Texts::default());
    assert_eq!(scenario.slo, Slo::default());
}

#[test]
fn every_part_can_be_said() {
    let text = format!(
        "{LEAST}rates = [0.5, 1]\narrivals = \"bursts\"\nburst = 4\nseed = 9\nwarm_up_s = 2\ntimeout_s = 5\n\
         max_in_flight = 7\n[texts]\nharness = {{ tokens = 1600 }}\nrooms = 3\n[slo]\nerror_share = 0.01\n\
         [[swap]]\nat_s = 4\ncommand = [\"true\"]\n"
    );
    let scenario = parse(&text).expect("valid");
    assert_eq!(scenario.arrivals, Arrivals::Bursts(4));
    assert_eq!(scenario.texts.harness, Length::Tokens(1600));
    assert_eq!(scenario.limits.in_flight, 7);
    assert_eq!(scenario.swaps[0].command, ["true"]);
    assert_eq!(scenario.slo.error_share, Some(0.01));
}

#[test]
fn a_trace_brings_its_own_times() {
    let text = format!("{LEAST}arrivals = \"trace\"\ntrace = \"day.txt\"\n");
    let scenario = parse(&text).expect("valid");
    assert_eq!(scenario.arrivals, Arrivals::Trace(vec![0.0, 4.0, 9.0]));
    assert!((scenario.rates[0] - 0.3).abs() < 1e-9);
}

#[test]
fn what_cannot_be_is_refused_by_its_key() {
    let cases = [
        ("rate = 1\nraet = 2\n", "raet"),
        ("rate = 1\n[texts]\nharnes = { words = 1 }\n", "harnes"),
        ("rate = 1\n[texts]\nharness = { letters = 1 }\n", "letters"),
        ("rate = 1\n[slo]\np95 = 1\n", "p95"),
        ("rate = 1\n[[swap]]\nat_s = 1\n", "command"),
        (
            "rate = 1\n[[swap]]\nat_s = 1\ncommand = []\n",
            "swap.command",
        ),
        ("rate = 0\n", "rates must be above 0"),
        ("rates = []\n", "rate or rates"),
        ("", "rate or rates"),
        ("rate = 1\nrates = [1]\n", "only one"),
        ("rate = 1\nburst = 2\n", "burst is only"),
        ("rate = 1\narrivals = \"bursts\"\n", "burst must"),
        ("rate = 1\narrivals = \"gauss\"\n", "gauss"),
        ("arrivals = \"trace\"\n", "trace must name"),
        (
            "rate = 1\narrivals = \"trace\"\ntrace = \"day.txt\"\n",
            "times of its own",
        ),
        (
            "arrivals = \"trace\"\ntrace = \"night.txt\"\n",
            "night.txt: no such file",
        ),
        ("rate = 1\nmax_in_flight = 0\n", "max_in_flight"),
        ("rate = 1\nwarm_up_s = -1\n", "warm_up_s"),
        ("rate = 1\ntimeout_s = nan\n", "timeout_s"),
        ("rate = 1\n[texts]\nrooms = 0\n", "texts.rooms"),
        (
            "rate = 1\n[texts]\ndisconnect_share = 1.5\n",
            "texts.disconnect_share",
        ),
    ];
    for (more, named) in cases {
        let error = parse(&format!("{LEAST}{more}")).expect_err(more);
        assert!(error.contains(named), "{more}: {error}");
    }
    let error = parse("name = \"n\"\ntarget = \"grpc\"\n").expect_err("an unknown target");
    assert!(error.contains("grpc"), "{error}");
}

#[test]
fn the_scenarios_kept_here_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = std::fs::read_dir(folder).expect("scenarios");
    let paths = files.map(|file| file.expect("a file").path());
    let toml: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "toml"))
        .collect();
    assert!(!toml.is_empty());
    for path in toml {
        Scenario::read(&path).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_missed_promise_is_named_with_both_numbers() {
    let summary = Summary {
        first_segment_ms: Percentiles {
            p95: Some(250.0),
            ..Percentiles::default()
        },
        ..super::super::summary::summarise(&[], Duration::from_secs(1), &Slo::default())
    };
    let slo = |text: &str| -> Slo { toml::from_str(text).expect("valid") };
    assert!(
        slo("first_segment_p95_ms = 250\nerror_share = 0")
            .missed(&summary)
            .is_empty()
    );
    assert_eq!(
        slo("first_segment_p95_ms = 200\ne2e_p95_ms = 900").missed(&summary),
        [
            "first_segment_p95_ms is 250.000, at most 200",
            "e2e_p95_ms is beyond what was answered, at most 900"
        ]
    );
}
