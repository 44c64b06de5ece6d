//! Numbers as they are said, so that every voice says the same: prices, discounts, ranges, units, dates, times, phone
//! and model numbers, English and Chinese. Pure and versioned; no digit is left, and saying it twice changes nothing.

mod chinese;
mod digits;
mod english;
mod scan;

/// Changes whenever what is said for some text changes.
pub const VERSION: u32 = 1;

/// Whose number words are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// English.
    English,
    /// Mandarin.
    Chinese,
    /// Any other: its numbers are left to the voice.
    Other,
}

impl Language {
    /// The language of `text`, of which a request may have said the code (`en`, `zh-CN`).
    #[must_use]
    pub fn of(code: Option<&str>, text: &str) -> Self {
        let code = code.map(|code| {
            code.split(['-', '_'])
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase()
        });
        let han = text.chars().any(|c| matches!(c, '\u{3400}'..='\u{9fff}'));
        match code.as_deref() {
            None | Some("" | "en") if han => Self::Chinese,
            None | Some("" | "en") => Self::English,
            Some("zh" | "yue" | "cmn") => Self::Chinese,
            Some(_) => Self::Other,
        }
    }
}

/// `text` with its numbers in words. It never becomes empty.
#[must_use]
pub fn normalise(text: &str, language: Language) -> String {
    match language {
        Language::English => scan::say(text, &english::RULES),
        Language::Chinese => scan::say(text, &chinese::RULES),
        Language::Other => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
