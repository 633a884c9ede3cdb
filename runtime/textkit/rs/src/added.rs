//! Added tokens: finding them in text, under a policy that is chosen per call.
//!
//! The crate keeps "special tokens are plain text" as a setting of the
//! tokenizer, so serving both ways would need two tokenizers or a lock. Here the
//! same two-stage extraction (tokens matched before and after normalization)
//! asks a [`Policy`] about each match instead.

use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};
use std::collections::HashMap;
use tokenizers::tokenizer::normalizer::{NormalizedString, Range};
use tokenizers::tokenizer::{Normalizer, PreTokenizedString, Token};
use tokenizers::{AddedToken, NormalizerWrapper, Tokenizer};

/// What may match in one call.
#[derive(Clone, Copy)]
pub struct Policy<'a> {
    /// Whether special tokens in the text count as such.
    pub parse_special: bool,
    /// Ascending byte offsets into the text that no match may span.
    pub marks: &'a [usize],
}

impl Policy<'_> {
    /// Whether a mark lies strictly between `start` and `end`.
    fn spans_mark(&self, start: usize, end: usize) -> bool {
        let next = self.marks.partition_point(|&m| m <= start);
        self.marks.get(next).is_some_and(|&m| m < end)
    }
}

/// An added token as the outside sees it.
pub struct Listed {
    pub id: u32,
    pub text: String,
    pub special: bool,
}

type Matcher = Option<DoubleArrayAhoCorasick<u32>>;
type Piece = (NormalizedString, Option<Vec<Token>>);

pub struct Added {
    by_id: HashMap<u32, AddedToken>,
    listed: Vec<Listed>,
    before: Matcher,
    after: Matcher,
}

impl Added {
    pub fn new(t: &Tokenizer) -> Result<Added, String> {
        let by_id: HashMap<u32, AddedToken> = t.get_added_tokens_decoder().into_iter().collect();
        let (mut before, mut after) = (vec![], vec![]);
        for (&id, token) in &by_id {
            if token.normalized {
                after.push((normalized(t.get_normalizer(), &token.content)?, id));
            } else {
                before.push((token.content.clone(), id));
            }
        }
        let listed = by_id.iter().map(|(&id, t)| Listed { id, text: t.content.clone(), special: t.special });
        let mut listed: Vec<Listed> = listed.collect();
        listed.sort_unstable_by_key(|t| t.id);
        Ok(Added { by_id, listed, before: matcher(before)?, after: matcher(after)? })
    }

    /// By ascending id.
    pub fn tokens(&self) -> &[Listed] {
        &self.listed
    }

    pub fn contains(&self, id: u32) -> bool {
        self.by_id.contains_key(&id)
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.by_id.get(&id).is_some_and(|t| t.special)
    }

    /// Cuts the text at the added tokens that the policy admits and normalizes
    /// what lies between.
    pub fn extract(&self, normalizer: Option<&NormalizerWrapper>, text: &str, policy: Policy) -> tokenizers::Result<PreTokenizedString> {
        let mut pieces: PreTokenizedString = text.into();
        pieces.split(|_, piece| self.cut(piece, &self.before, policy))?;
        pieces.split(|_, mut piece| {
            if let Some(n) = normalizer {
                n.normalize(&mut piece)?;
            }
            self.cut(piece, &self.after, policy)
        })?;
        Ok(pieces)
    }

    fn cut(&self, piece: NormalizedString, matcher: &Matcher, policy: Policy) -> tokenizers::Result<Vec<Piece>> {
        let Some(matcher) = matcher else { return Ok(vec![(piece, None)]) };
        let mut out = vec![];
        let mut done = 0;
        let text = piece.get();
        for m in matcher.leftmost_find_iter(text) {
            let id = m.value();
            let Some((start, end)) = self.admit(&piece, id, m.start(), m.end(), policy) else { continue };
            let start = start.max(done);
            if done < start {
                out.push((part(&piece, done, start)?, None));
            }
            let slice = part(&piece, start, end)?;
            let token = Token::new(id, slice.get().to_owned(), (0, end - start));
            out.push((slice, Some(vec![token])));
            done = end;
        }
        if done < text.len() {
            out.push((part(&piece, done, text.len())?, None));
        }
        Ok(out)
    }

    /// The range a match takes up, white space that the token strips included;
    /// none if the policy or the token's own rules refuse it.
    fn admit(&self, piece: &NormalizedString, id: u32, start: usize, end: usize, policy: Policy) -> Option<(usize, usize)> {
        let token = self.by_id.get(&id)?;
        if token.special && !policy.parse_special {
            return None;
        }
        if !policy.marks.is_empty() {
            let at = piece.convert_offsets(Range::Normalized(start..end))?;
            let shift = piece.offsets_original().0;
            if policy.spans_mark(at.start + shift, at.end + shift) {
                return None;
            }
        }
        let text = piece.get();
        let (left, right) = (&text[..start], &text[end..]);
        if token.single_word && (left.ends_with(is_word) || right.starts_with(is_word)) {
            return None;
        }
        let start = if token.lstrip { left.trim_end().len() } else { start };
        let end = if token.rstrip { text.len() - right.trim_start().len() } else { end };
        Some((start, end))
    }
}

fn normalized(n: Option<&NormalizerWrapper>, text: &str) -> Result<String, String> {
    let mut s = NormalizedString::from(text);
    if let Some(n) = n {
        n.normalize(&mut s).map_err(|e| format!("normalize added token {text:?}: {e}"))?;
    }
    Ok(s.get().to_owned())
}

fn matcher(pairs: Vec<(String, u32)>) -> Result<Matcher, String> {
    if pairs.is_empty() {
        return Ok(None);
    }
    let builder = DoubleArrayAhoCorasickBuilder::new().match_kind(MatchKind::LeftmostLongest);
    builder.build_with_values(pairs).map(Some).map_err(|e| format!("added tokens: {e}"))
}

fn part(piece: &NormalizedString, start: usize, end: usize) -> tokenizers::Result<NormalizedString> {
    piece.slice(Range::Normalized(start..end)).ok_or_else(|| "added token cuts a character".into())
}

/// A character of a word, as `\w` has it.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
