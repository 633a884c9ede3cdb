//! Streaming decode: ids one by one to the text they add.

use crate::bytes::unfinished;
use crate::tokenizer::Tok;
use std::sync::Arc;

/// After so many ids without text the held ones can't be one character any
/// more: they are given out as they decode, so that a step stays cheap.
const MAX_HELD: usize = 512;

/// What an unfinished or broken character decodes to.
const REPLACEMENT: char = '\u{FFFD}';

/// Decoding depends on neighbours (a leading space is dropped at the start of
/// the text only), so a window of the ids that gave the last piece is decoded
/// along with the new ones and its text cut off again.
pub struct Stream {
    tok: Arc<Tok>,
    skip_special: bool,
    /// The ids of the last piece, then those still held back.
    ids: Vec<u32>,
    /// How many of `ids` belong to the last piece.
    given: usize,
    /// What the last piece's ids decode to by themselves.
    prefix: String,
    /// The answer of the latest call; it lends its bytes out.
    out: String,
}

impl Stream {
    pub fn new(tok: Arc<Tok>, skip_special: bool) -> Stream {
        Stream { tok, skip_special, ids: vec![], given: 0, prefix: String::new(), out: String::new() }
    }

    /// Takes one id and returns the text that is now certain, often empty.
    pub fn step(&mut self, id: u32) -> Result<&str, String> {
        self.out.clear();
        self.settle_prefix()?;
        self.ids.push(id);
        let all = self.tok.decode(&self.ids, self.skip_special)?;
        let held = self.ids.len() - self.given;
        let ready = all.len() > self.prefix.len() && !all.ends_with(REPLACEMENT);
        if !ready && held < MAX_HELD {
            return Ok(&self.out);
        }
        match all.strip_prefix(&self.prefix) {
            Some(new) => self.out.push_str(new),
            // A later byte made an earlier one decode differently; what was
            // given stays given, the rest stands for itself.
            None => self.out = self.tok.decode(&self.ids[self.given..], self.skip_special)?,
        }
        self.advance()?;
        Ok(&self.out)
    }

    /// Returns what is held back and can't wait any more, without a character
    /// that the ids only begin. The stream may go on as a new text.
    pub fn flush(&mut self) -> Result<&str, String> {
        self.out.clear();
        self.settle_prefix()?;
        let all = self.tok.decode(&self.ids, self.skip_special)?;
        let new = all.strip_prefix(&self.prefix).unwrap_or("");
        self.out.push_str(&new[..new.len() - self.unfinished_text(new)]);
        (self.ids, self.given, self.prefix) = (vec![], 0, String::new());
        Ok(&self.out)
    }

    /// How many bytes of replacement characters at the end of `new` stand for
    /// an unfinished character: one for the whole of it or, where lone bytes
    /// have tokens of their own, one for each.
    fn unfinished_text(&self, new: &str) -> usize {
        let held = self.ids[self.given..].iter().filter(|&&id| !(self.skip_special && self.tok.is_special(id)));
        let pieces: Vec<Vec<u8>> = held.map(|&id| self.tok.token_bytes(id).unwrap_or_default()).collect();
        let open = unfinished(&pieces.concat());
        let lone = pieces.iter().rev().take(open).all(|p| p.len() == 1) && !self.tok.joins_bytes();
        let marks = if lone { open } else { open.min(1) };
        let tail = new.len() - new.trim_end_matches(REPLACEMENT).len();
        tail.min(marks * REPLACEMENT.len_utf8())
    }

    /// Ids that gave no text at first (a leading special token) become the
    /// prefix as soon as they do.
    fn settle_prefix(&mut self) -> Result<(), String> {
        if self.prefix.is_empty() && !self.ids.is_empty() {
            let prefix = self.tok.decode(&self.ids, self.skip_special)?;
            if !prefix.ends_with(REPLACEMENT) {
                self.prefix = prefix;
                self.given = self.ids.len();
            }
        }
        Ok(())
    }

    /// The ids just given out become the window.
    fn advance(&mut self) -> Result<(), String> {
        self.ids.drain(..self.given);
        self.prefix = self.tok.decode(&self.ids, self.skip_special)?;
        self.given = self.ids.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testmodels::{byte_fallback, byte_level, TRICKY};

    fn run(tok: Tok, ids: &[u32], skip: bool) -> (String, String) {
        let mut s = Stream::new(Arc::new(tok), skip);
        let text = ids.iter().map(|&id| s.step(id).unwrap().to_owned()).collect();
        (text, s.flush().unwrap().to_owned())
    }

    #[test]
    fn joined_steps_are_the_whole() {
        for text in TRICKY.iter().chain(&["é中😀", "\u{FFFD}", "a\u{FFFD}\u{FFFD}"]) {
            for make in [byte_level, byte_fallback] {
                let tok = make();
                let ids = tok.encode(text, false, true, &[]).unwrap();
                let whole = tok.decode(&ids, false).unwrap();
                let (steps, rest) = run(tok, &ids, false);
                assert_eq!(steps + &rest, whole, "{text:?}");
            }
        }
    }

    #[test]
    fn an_unfinished_character_is_left_out() {
        let tok = byte_level();
        let ids = tok.encode("a中", false, true, &[]).unwrap();
        assert_eq!(run(tok, &ids[..3], false), ("a".into(), "".into()));
        let tok = byte_fallback();
        let ids = tok.encode("a中", false, true, &[]).unwrap();
        assert_eq!(run(tok, &ids[..ids.len() - 1], false), ("a".into(), "".into()));
    }

    #[test]
    fn lone_bytes_after_a_whole_character_lose_nothing() {
        // 中, then a byte that begins another, then text: the crate's own
        // stream ends with an error here.
        let byte = |b: u32| b + 1;
        let ids: Vec<u32> = "中".bytes().map(|b| byte(b.into())).chain([byte(0xE4), 258]).collect();
        let (steps, rest) = run(byte_fallback(), &ids, false);
        assert_eq!(steps + &rest, "中\u{FFFD}a");
    }

    #[test]
    fn broken_bytes_for_ever_are_given_out() {
        let ids = vec![0x81; 3 * MAX_HELD];
        let (steps, _) = run(byte_fallback(), &ids, false);
        assert!(steps.chars().count() >= 2 * MAX_HELD);
    }

    #[test]
    fn skipped_specials_give_nothing() {
        let ids = [262, 260, 262, 260];
        let (steps, rest) = run(byte_fallback(), &ids, true);
        assert_eq!(steps + &rest, byte_fallback().decode(&ids, true).unwrap());
    }
}
