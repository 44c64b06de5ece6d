//! What a skill may be called, in any script.

use unicode_normalization::UnicodeNormalization as _;

/// Most code points of a name.
const LENGTH: usize = 64;

/// The one way to write a name: NFKC.
pub(super) fn canonical(text: &str) -> String {
    text.nfkc().collect()
}

/// Checks a canonical name.
///
/// # Errors
/// Says which rule it breaks.
pub(super) fn check(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("is blank".to_owned());
    }
    let length = name.chars().count();
    if length > LENGTH {
        return Err(format!("has {length} characters, at most {LENGTH}"));
    }
    for c in name.chars() {
        if c == '-' {
            continue;
        }
        if !c.is_alphanumeric() {
            return Err(format!(
                "{name:?} holds {c:?}; only letters, digits and hyphens may stand in a name"
            ));
        }
        if c.is_uppercase() || c.to_lowercase().ne([c]) {
            return Err(format!("{name:?} holds {c:?}; letters must be lower case"));
        }
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        return Err(format!(
            "{name:?} begins or ends with a hyphen, or has two in a row"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_any_script_make_a_name() {
        for name in [
            "a",
            "直播-促销",
            "осенняя-скидка",
            "技能",
            "size-help-2",
            "été",
            &"界".repeat(64),
        ] {
            assert_eq!(check(&canonical(name)), Ok(()), "{name}");
        }
    }

    #[test]
    fn each_rule_is_said() {
        let long = "界".repeat(65);
        let cases = [
            ("", "blank"),
            ("Осенняя-скидка", "lower case"),
            ("my--skill", "hyphen"),
            ("-x", "hyphen"),
            ("x-", "hyphen"),
            ("my_skill", "'_'"),
            ("my skill", "' '"),
            ("a/b", "'/'"),
            ("..", "'.'"),
            (&long, "65"),
        ];
        for (name, part) in cases {
            let reason = check(&canonical(name)).expect_err(name);
            assert!(reason.contains(part), "{name}: {reason}");
        }
    }

    #[test]
    fn full_width_letters_are_the_plain_ones() {
        assert_eq!(canonical("ｓｉｚｅ"), "size");
    }
}
