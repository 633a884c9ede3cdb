//! One tokenizer: a single model in memory that serves every way of encoding.

use crate::added::{Added, Policy};
use crate::bytes::TokenBytes;
use tokenizers::tokenizer::{Model, OffsetType, PreTokenizer};
use tokenizers::Tokenizer;

/// The largest text one call encodes.
pub const MAX_TEXT: usize = 64 << 20;

pub struct Tok {
    inner: Tokenizer,
    added: Added,
    bytes: TokenBytes,
}

impl Tok {
    /// Reads a `tokenizer.json`. Truncation and padding that a file may carry
    /// are training settings; they are switched off.
    pub fn from_json(json: &[u8]) -> Result<Tok, String> {
        let mut inner = Tokenizer::from_bytes(json).map_err(|e| format!("read tokenizer: {e}"))?;
        inner.with_truncation(None).map_err(|e| e.to_string())?;
        inner.with_padding(None);
        let added = Added::new(&inner)?;
        let bytes = TokenBytes::new(&inner);
        Ok(Tok { inner, added, bytes })
    }

    /// Text to ids. `add_special` runs the post-processor (bos, eos);
    /// without `parse_special` the special tokens in the text are plain text.
    /// `marks` are ascending byte offsets: no added token that has one strictly
    /// inside is matched, whatever its kind.
    pub fn encode(&self, text: &str, add_special: bool, parse_special: bool, marks: &[usize]) -> Result<Vec<u32>, String> {
        if text.len() > MAX_TEXT {
            return Err(format!("text of {} bytes, the limit is {MAX_TEXT}", text.len()));
        }
        if parse_special && marks.is_empty() {
            let e = self.inner.encode_fast(text, add_special).map_err(|e| format!("encode: {e}"))?;
            return Ok(e.get_ids().to_vec());
        }
        self.encode_with(text, add_special, Policy { parse_special, marks })
    }

    /// The same steps as the crate's own encode, over our own extraction of
    /// added tokens: what may match is a matter of the call, not of the model,
    /// so one copy of the model serves all.
    fn encode_with(&self, text: &str, add_special: bool, policy: Policy) -> Result<Vec<u32>, String> {
        let run = || -> tokenizers::Result<Vec<u32>> {
            let mut pieces = self.added.extract(self.inner.get_normalizer(), text, policy)?;
            if let Some(pre) = self.inner.get_pre_tokenizer() {
                pre.pre_tokenize(&mut pieces)?;
            }
            self.inner.get_model().tokenize_in_pretokenized(&mut pieces, None)?;
            let encoding = pieces.into_encoding(None, 0, OffsetType::None)?;
            Ok(self.inner.post_process(encoding, None, add_special)?.get_ids().to_vec())
        };
        run().map_err(|e| format!("encode: {e}"))
    }

    /// Ids to text; ids that the vocabulary lacks are left out.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, String> {
        self.inner.decode(ids, skip_special).map_err(|e| format!("decode: {e}"))
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> usize {
        let last = self.added.tokens().last().map_or(0, |t| t.id as usize + 1);
        self.inner.get_vocab_size(false).max(last)
    }

    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token as the vocabulary spells it.
    pub fn token(&self, id: u32) -> Option<String> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder().get(&id);
        added.map(|t| t.content.clone()).or_else(|| self.inner.get_model().id_to_token(id))
    }

    /// The bytes an id stands for in text, without its neighbours' influence.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.inner.id_to_token(id).map(|t| self.bytes.of(&t, self.added.contains(id)))
    }

    /// Whether the decoder joins the bytes of neighbours before it looks for
    /// characters (GPT-2's way) instead of giving lone bytes tokens of their own.
    pub fn joins_bytes(&self) -> bool {
        self.bytes.joins()
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.added.is_special(id)
    }

    /// Added tokens as a JSON array of {id, text, special}, by ascending id.
    pub fn added_json(&self) -> String {
        let list = self.added.tokens().iter();
        let list = list.map(|t| serde_json::json!({"id": t.id, "text": t.text, "special": t.special}));
        serde_json::Value::Array(list.collect()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use crate::testmodels::{byte_level, TRICKY};

    /// Our extraction with nothing held back must be the crate's.
    #[test]
    fn own_extraction_is_the_crates() {
        let t = byte_level();
        let policy = crate::added::Policy { parse_special: true, marks: &[] };
        for text in TRICKY {
            assert_eq!(t.encode_with(text, true, policy).unwrap(), t.encode(text, true, true, &[]).unwrap(), "{text:?}");
        }
    }

    #[test]
    fn special_tokens_as_plain_text() {
        let t = byte_level();
        let raw = t.encode("a<|end|>b", false, false, &[]).unwrap();
        assert!(raw.iter().all(|&id| !t.is_special(id)), "{raw:?}");
        assert_eq!(t.decode(&raw, true).unwrap(), "a<|end|>b");
        // A token that is added but not special is still itself.
        let think = t.id("<think>").unwrap();
        assert_eq!(t.encode("<think>", false, false, &[]).unwrap(), [think]);
    }

    #[test]
    fn a_mark_inside_a_token_makes_it_plain() {
        let t = byte_level();
        let end = t.id("<|end|>").unwrap();
        let text = "<|end|>x<|end|>";
        let marked = t.encode(text, false, true, &[9]).unwrap();
        assert_eq!(marked.iter().filter(|&&id| id == end).count(), 1);
        assert_eq!(marked[0], end);
        assert_eq!(t.decode(&marked, false).unwrap(), text);
        // At the edge it is between tokens and has no effect.
        assert_eq!(t.encode(text, false, true, &[7, 8]).unwrap(), t.encode(text, false, true, &[]).unwrap());
        let think = t.id("<think>").unwrap();
        assert!(!t.encode("<think>", false, true, &[3]).unwrap().contains(&think));
    }

    #[test]
    fn names_ids_and_bytes() {
        let t = byte_level();
        let end = t.id("<|end|>").unwrap();
        assert_eq!(t.token(end).unwrap(), "<|end|>");
        assert_eq!(t.token_bytes(end).unwrap(), b"<|end|>");
        assert_eq!(t.token_bytes(t.id("Ġ").unwrap()).unwrap(), b" ");
        assert_eq!(t.token_bytes(9_999), None);
        assert_eq!(t.vocab_size() as u32, t.id("tok").unwrap() + 1);
        assert!(t.added_json().contains(r#""text":"<|end|>","special":true"#));
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(super::Tok::from_json(b"{}").is_err());
        assert!(super::Tok::from_json(b"").is_err());
    }
}
