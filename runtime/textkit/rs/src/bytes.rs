//! The bytes a token stands for.

use std::collections::HashMap;
use tokenizers::{DecoderWrapper, Tokenizer};

/// How the vocabulary spells bytes.
enum Spelling {
    /// GPT-2's alphabet: each byte is one printable character.
    ByteLevel(HashMap<char, u8>),
    /// UTF-8, with `▁` for a space and `<0xAB>` for a lone byte.
    Sentencepiece,
    /// UTF-8 as it stands.
    Plain,
}

pub struct TokenBytes {
    spelling: Spelling,
}

impl TokenBytes {
    pub fn new(t: &Tokenizer) -> TokenBytes {
        let json = t.get_decoder().map(describe).unwrap_or_default();
        let spelling = if json.contains("\"ByteLevel\"") {
            Spelling::ByteLevel(byte_alphabet())
        } else if json.contains("\"ByteFallback\"") || json.contains('▁') {
            Spelling::Sentencepiece
        } else {
            Spelling::Plain
        };
        TokenBytes { spelling }
    }

    /// Whether tokens may end in the middle of a character.
    pub fn joins(&self) -> bool {
        matches!(self.spelling, Spelling::ByteLevel(_))
    }

    /// The bytes of a token given as the vocabulary spells it.
    pub fn of(&self, token: &str, added: bool) -> Vec<u8> {
        match &self.spelling {
            Spelling::ByteLevel(alphabet) => {
                let bytes: Option<Vec<u8>> = token.chars().map(|c| alphabet.get(&c).copied()).collect();
                bytes.unwrap_or_else(|| token.as_bytes().to_vec())
            }
            Spelling::Sentencepiece => match lone_byte(token) {
                Some(b) => vec![b],
                None if added => token.as_bytes().to_vec(),
                None => token.replace('▁', " ").into_bytes(),
            },
            Spelling::Plain => token.as_bytes().to_vec(),
        }
    }
}

/// The decoder as JSON: the only view of its parts that the crate offers to all
/// kinds alike.
fn describe(d: &DecoderWrapper) -> String {
    serde_json::to_string(d).unwrap_or_default()
}

/// The value of `<0xAB>`.
fn lone_byte(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() == 2 {
        u8::from_str_radix(hex, 16).ok()
    } else {
        None
    }
}

/// GPT-2's byte alphabet (openai/gpt-2, `bytes_to_unicode`): printable Latin-1
/// stands for itself, the other bytes follow from U+0100 in order.
fn byte_alphabet() -> HashMap<char, u8> {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut next = 0x100u32;
    let spell = |b: u8| {
        let code = if printable(b) {
            u32::from(b)
        } else {
            next += 1;
            next - 1
        };
        (char::from_u32(code).unwrap_or('\u{FFFD}'), b)
    };
    (0..=255).map(spell).collect()
}

/// How many bytes at the end of `bytes` begin a character that is not finished.
pub fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    for (i, &b) in tail.iter().enumerate() {
        let want = match b {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => continue,
        };
        let have = &tail[i..];
        // An error without a length is a sequence that more bytes could finish.
        let open = matches!(std::str::from_utf8(have), Err(e) if e.valid_up_to() == 0 && e.error_len().is_none());
        if have.len() < want && open {
            return have.len();
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_a_bijection() {
        let a = byte_alphabet();
        assert_eq!(a.len(), 256);
        assert_eq!(a[&'Ġ'], b' ');
        assert_eq!(a[&'Ċ'], b'\n');
        assert_eq!(a[&'a'], b'a');
    }

    #[test]
    fn lone_bytes() {
        assert_eq!(lone_byte("<0x0A>"), Some(10));
        assert_eq!(lone_byte("<0xA>"), None);
        assert_eq!(lone_byte("<0xZZ>"), None);
    }

    #[test]
    fn unfinished_counts_only_what_could_be_finished() {
        for (bytes, want) in [
            (&b""[..], 0),
            (b"a", 0),
            (b"a\xe4", 1),
            (b"a\xe4\xb8", 2),
            ("中".as_bytes(), 0),
            (b"\xf0\x9f\x98", 3),
            (b"\x80\x80", 0),
            (b"\xff", 0),
            (b"\xe0\x80", 0),
            (b"\xc3", 1),
            ("\u{FFFD}".as_bytes(), 0),
            (b"\xed\xa0", 0),
        ] {
            assert_eq!(unfinished(bytes), want, "{bytes:x?}");
        }
    }
}
