//! JSON as Python's `json.dumps` writes it, from template values.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Nesting beyond this is refused, as Python's recursion limit does.
const MAX_DEPTH: usize = 400;

/// The arguments of `tojson` as transformers defines it.
pub struct Style {
    pub ensure_ascii: bool,
    /// What one level is indented by; none puts everything on one line.
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
    /// The most bytes to write.
    pub limit: usize,
}

/// Writes a value.
pub fn dumps(value: &Value, style: &Style) -> Result<String, Error> {
    let mut w = Writer { style, out: String::new() };
    w.value(value, 0)?;
    w.check()?;
    Ok(w.out)
}

struct Writer<'a> {
    style: &'a Style,
    out: String,
}

impl Writer<'_> {
    fn value(&mut self, v: &Value, depth: usize) -> Result<(), Error> {
        self.check()?;
        if depth > MAX_DEPTH {
            return Err(refuse(format!("tojson: nested deeper than {MAX_DEPTH}")));
        }
        match v.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if v.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(v)),
            ValueKind::String => self.string(v.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.list(v, depth)?,
            ValueKind::Map => self.map(v, depth)?,
            kind => return Err(refuse(format!("tojson: a value of kind {kind} has no JSON"))),
        }
        Ok(())
    }

    fn list(&mut self, v: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut empty = true;
        for item in v.try_iter()?.checked() {
            self.between(&mut empty, depth);
            self.value(&item?, depth + 1)?;
        }
        self.close(empty, depth, ']');
        Ok(())
    }

    fn map(&mut self, v: &Value, depth: usize) -> Result<(), Error> {
        let mut keys = v.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
        if self.style.sort_keys {
            keys.sort_by(|a, b| a.as_str().cmp(&b.as_str()).then_with(|| a.cmp(b)));
        }
        self.out.push('{');
        let mut empty = true;
        for key in keys {
            self.between(&mut empty, depth);
            self.key(&key)?;
            self.out.push_str(&self.style.key_separator);
            self.value(&v.get_item(&key)?, depth + 1)?;
        }
        self.close(empty, depth, '}');
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or_default()),
            ValueKind::Number => self.string(&number(key)),
            ValueKind::Bool => self.string(if key.is_true() { "true" } else { "false" }),
            ValueKind::None => self.string("null"),
            kind => return Err(refuse(format!("tojson: a key of kind {kind} has no JSON"))),
        }
        Ok(())
    }

    fn between(&mut self, empty: &mut bool, depth: usize) {
        if !std::mem::replace(empty, false) {
            self.out.push_str(&self.style.item_separator);
        }
        self.line(depth + 1);
    }

    fn close(&mut self, empty: bool, depth: usize, bracket: char) {
        if !empty {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            (0..depth).for_each(|_| self.out.push_str(indent));
        }
    }

    fn string(&mut self, s: &str) {
        self.out.push('"');
        for c in s.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{C}' => self.out.push_str("\\f"),
                c if c < ' ' => self.escape(c),
                c if self.style.ensure_ascii && !(' '..='~').contains(&c) => self.escape(c),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, c: char) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            self.out.push_str(&format!("\\u{unit:04x}"));
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.out.len() > self.style.limit {
            return Err(refuse(format!("tojson: more than {} bytes", self.style.limit)));
        }
        Ok(())
    }
}

fn refuse(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

fn number(v: &Value) -> String {
    if v.is_integer() {
        return v.to_string();
    }
    f64::try_from(v.clone()).map_or_else(|_| v.to_string(), float)
}

/// A float as Python's `repr` gives it: the shortest digits that read back, with
/// an exponent below 1e-4 and from 1e16.
pub fn float(x: f64) -> String {
    if x.is_nan() {
        return "NaN".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let shortest = format!("{x:e}");
    let (digits, exp) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exp: i32 = exp.parse().unwrap_or(0);
    if (-4..16).contains(&exp) {
        let plain = x.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exp < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exp.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style() -> Style {
        Style {
            ensure_ascii: false,
            indent: None,
            item_separator: ", ".into(),
            key_separator: ": ".into(),
            sort_keys: false,
            limit: 1 << 20,
        }
    }

    fn value(json: &str) -> Value {
        Value::from(minijinja::value::Serde(serde_json::from_str::<serde_json::Value>(json).unwrap()))
    }

    #[test]
    fn as_python_writes_it() {
        let v = value(r#"{"b": [1, 2.0, -0.5, null, true], "a": {"é\n\u0001<&>": "\"\\/"}, "e": [], "o": {}}"#);
        let one_line = r#"{"b": [1, 2.0, -0.5, null, true], "a": {"é\n\u0001<&>": "\"\\/"}, "e": [], "o": {}}"#;
        assert_eq!(dumps(&v, &style()).unwrap(), one_line);
        let s = Style { sort_keys: true, item_separator: ",".into(), key_separator: ":".into(), ensure_ascii: true, ..style() };
        assert_eq!(dumps(&v, &s).unwrap(), r#"{"a":{"\u00e9\n\u0001<&>":"\"\\/"},"b":[1,2.0,-0.5,null,true],"e":[],"o":{}}"#);
    }

    #[test]
    fn indented() {
        let s = Style { indent: Some("  ".into()), item_separator: ",".into(), ..style() };
        assert_eq!(dumps(&value(r#"{"a": [1, {}], "b": []}"#), &s).unwrap(), "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
    }

    #[test]
    fn floats_as_repr() {
        for (x, want) in [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1e-5, "1e-05"),
            (1e-4, "0.0001"),
            (1.5e-7, "1.5e-07"),
            (1.5e300, "1.5e+300"),
            (-0.0, "-0.0"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(float(x), want);
        }
    }

    #[test]
    fn bounded() {
        let s = Style { limit: 10, ..style() };
        assert!(dumps(&value(r#"["aaaaaaaaaaaaaaaaaaaa"]"#), &s).is_err());
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert!(dumps(&value(&deep), &style()).is_ok());
        let deeper = (0..MAX_DEPTH + 2).fold(Value::from(1), |v, _| Value::from(vec![v]));
        assert!(dumps(&deeper, &style()).is_err());
        assert!(dumps(&Value::UNDEFINED, &style()).is_err());
    }
}
