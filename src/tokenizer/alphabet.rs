//! The alphabet of byte-level vocabularies: each of the 256 bytes is written as one printable character.
//!
//! Bytes that are printable in Latin-1 stand for themselves; the other 68 take the code points from U+0100 on, in
//! order.

/// First code point that stands for an unprintable byte.
const SHIFTED: u32 = 0x100;

/// Whether a byte is written as the Latin-1 character of the same number.
const fn stands_for_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The bytes that do not stand for themselves, in order: U+0100 + i is the i-th.
const SHIFTED_BYTES: [u8; 68] = {
    let mut bytes = [0; 68];
    let mut next = 0;
    let mut code = SHIFTED;
    while code > 0 {
        code -= 1;
        // Below 256 by the line above; filled from the end.
        let byte = code as u8;
        if !stands_for_itself(byte) {
            next += 1;
            bytes[68 - next] = byte;
        }
    }
    bytes
};

/// The byte that a character of the alphabet stands for, `None` for any other character.
pub(super) fn byte_of(letter: char) -> Option<u8> {
    let code = u32::from(letter);
    if let Ok(byte) = u8::try_from(code) {
        return stands_for_itself(byte).then_some(byte);
    }
    let index = usize::try_from(code - SHIFTED).ok()?;
    SHIFTED_BYTES.get(index).copied()
}

/// The character that stands for a byte.
pub(super) fn letter_of(byte: u8) -> char {
    if stands_for_itself(byte) {
        return char::from(byte);
    }
    let index = SHIFTED_BYTES.partition_point(|&shifted| shifted < byte);
    let code = SHIFTED + u32::try_from(index).expect("fewer than 68 bytes are shifted");
    char::from_u32(code).expect("code points from U+0100 to U+0143 are characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_letter_of_its_own() {
        for byte in 0..=u8::MAX {
            assert_eq!(byte_of(letter_of(byte)), Some(byte));
        }
        assert_eq!(letter_of(b' '), 'Ġ');
        assert_eq!(letter_of(b'\n'), 'Ċ');
        assert_eq!(letter_of(0xAD), 'Ń');
    }

    #[test]
    fn other_characters_stand_for_nothing() {
        for letter in [' ', '\u{AD}', '\u{144}', '好'] {
            assert_eq!(byte_of(letter), None);
        }
    }
}
