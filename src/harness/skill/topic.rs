//! Topics of a skill: the words of a comment that ask for one fact of a product, so that only this fact is put beside the
//! question. Small models answer from one sentence what they get wrong from ten.

use super::Triggers;

/// One line of `avatar/topics`.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Name of the product fact.
    pub fact: String,
    /// What asks for it.
    pub asked_by: Triggers,
}

/// Reads lines such as `waterproof: rain, wet, /water ?proof/`.
///
/// # Errors
/// Every line that cannot be used, with its reason.
pub(super) fn parse(text: &str) -> Result<Vec<Topic>, Vec<String>> {
    let (mut topics, mut faults) = (Vec::<Topic>::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((fact, words)) = line.split_once([':', '：']) else {
            faults.push(format!(
                "{line:?} must be the name of a fact, a colon and words"
            ));
            continue;
        };
        let fact = fact.trim();
        if fact.is_empty() || topics.iter().any(|topic| topic.fact == fact) {
            let reason = if fact.is_empty() {
                "names no fact"
            } else {
                "names a fact that is there already"
            };
            faults.push(format!("{line:?} {reason}"));
            continue;
        }
        match Triggers::parse(words) {
            Ok(asked_by) if asked_by.is_empty() => {
                faults.push(format!("{fact}: no word asks for it"));
            }
            Ok(asked_by) => topics.push(Topic {
                fact: fact.to_owned(),
                asked_by,
            }),
            Err(reasons) => {
                faults.extend(reasons.iter().map(|reason| format!("{fact}: {reason}")));
            }
        }
    }
    if topics.is_empty() && faults.is_empty() {
        faults.push("names no topic".to_owned());
    }
    if faults.is_empty() {
        Ok(topics)
    } else {
        Err(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_fact_and_what_asks_for_it() {
        let topics = parse("# notes\nwaterproof: rain, /water ?proof/\n\n颜色：红, 什么颜色\n")
            .expect("valid");
        let names: Vec<_> = topics.iter().map(|topic| topic.fact.as_str()).collect();
        assert_eq!(names, ["waterproof", "颜色"]);
        assert!(topics[0].asked_by.matches("is it water proof?"));
        assert!(topics[1].asked_by.matches("有红的吗"));
        assert!(!topics[0].asked_by.matches("is it warm?"));
    }

    #[test]
    fn every_line_at_fault_is_named() {
        let faults = parse("no colon\n: rain\na: x\na: y\nb: ,\nc: /(/, /x*/").expect_err("bad");
        assert_eq!(faults.len(), 6, "{faults:?}");
        assert_eq!(parse("# nothing").expect_err("blank"), ["names no topic"]);
    }
}
