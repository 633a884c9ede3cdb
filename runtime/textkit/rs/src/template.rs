//! Chat templates: Jinja as transformers sets it up, for templates that nobody
//! vouches for. Fuel bounds a render, and [`confine`] what fuel does not see.

use crate::confine::{confine, Stop, TIME};
use crate::pyjson::{dumps, Style};
use crate::strftime::Local;
use minijinja::value::{Kwargs, Rest, Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State};
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// The largest template source; real ones have up to 40 KiB. Compiling folds
/// constants, which takes time with the square of an expression's length.
const MAX_SOURCE: usize = 256 << 10;
/// The most bytes one render may give.
const MAX_OUTPUT: usize = 64 << 20;
/// Instructions, and one more for every 64 bytes made: at most 128 MB.
const FUEL: u64 = 2_000_000;
/// The longest error text: templates can raise what they like.
const MAX_ERROR: usize = 4 << 10;

const NAME: &str = "chat_template";
/// Where the local time stands while a template renders.
const NOW: &str = "__ingot_now";

pub struct Template {
    env: Arc<Environment<'static>>,
    /// A render was over its bounds: it would be again.
    stopped: AtomicBool,
}

impl Template {
    pub fn compile(source: &str) -> Result<Template, String> {
        if source.len() > MAX_SOURCE {
            return Err(format!("template of {} bytes, the limit is {MAX_SOURCE}", source.len()));
        }
        let source = plain_generation(source).into_owned();
        let compile = || {
            let mut env = environment()?;
            env.add_template_owned(NAME, source).map_err(|e| describe("template", &e))?;
            Ok(Arc::new(env))
        };
        let env = confine(TIME, compile).map_err(|stop| reason("template", stop))?;
        Ok(Template { env, stopped: false.into() })
    }

    /// Renders with a context, a JSON object; `now` is what `strftime_now` tells.
    pub fn render(&self, context: &[u8], now: Local) -> Result<String, String> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err("render: this template was stopped before".into());
        }
        let (env, context) = (self.env.clone(), context.to_vec());
        confine(TIME, move || render(&env, &context, now)).map_err(|stop| {
            self.stopped.fetch_or(matches!(stop, Stop::Parked(_)), Ordering::Relaxed);
            reason("render", stop)
        })
    }
}

fn reason(what: &str, stop: Stop) -> String {
    match stop {
        Stop::Failed(why) => why,
        Stop::Parked(why) => format!("{what}: stopped for taking {why}"),
    }
}

fn render(env: &Environment, context: &[u8], now: Local) -> Result<String, String> {
    let mut context: serde_json::Value = serde_json::from_slice(context).map_err(|e| format!("context: {e}"))?;
    let Some(map) = context.as_object_mut() else { return Err("context: not an object".into()) };
    map.insert(NOW.into(), serde_json::json!([now.seconds, now.micros]));
    let template = env.get_template(NAME).map_err(|e| describe("template", &e))?;
    let mut out = Bounded::default();
    let done = template.render_captured_to(Serde(&context), &mut out).map(|_| ());
    if out.full {
        return Err(format!("render: more than {MAX_OUTPUT} bytes"));
    }
    done.map_err(|e| describe("render", &e))?;
    String::from_utf8(out.bytes).map_err(|e| format!("render: {e}"))
}

fn environment() -> Result<Environment<'static>, String> {
    let syntax = minijinja::syntax::SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    let mut env = Environment::new();
    env.set_syntax(syntax.map_err(|e| e.to_string())?);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    env.set_fuel(Some(FUEL));
    env.add_filter("tojson", tojson);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env.add_test("iterable", is_iterable);
    Ok(env)
}

/// An error with its place and its causes, without the source excerpt.
fn describe(what: &str, e: &Error) -> String {
    let mut text = format!("{what}: {e}");
    let mut cause = std::error::Error::source(e);
    while let Some(c) = cause {
        text.push_str(&format!(": {c}"));
        cause = c.source();
    }
    if text.len() > MAX_ERROR {
        let end = (0..=MAX_ERROR).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn strftime_now(state: &State, format: String) -> Result<String, Error> {
    let now = state.lookup(NOW).unwrap_or_default();
    let part = |i| now.get_item_by_index(i).ok().and_then(|v| v.as_i64()).unwrap_or_default();
    let local = Local { seconds: part(0), micros: part(1) as u32 };
    Ok(local.format(&format))
}

/// Jinja counts strings and mappings as iterable and, unlike the engine,
/// undefined values; none is not.
fn is_iterable(v: &Value) -> bool {
    !v.is_none() && (v.is_undefined() || v.try_iter().is_ok())
}

/// `tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`
fn tojson(value: &Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let argument = |i: usize, name: &str| -> Result<Option<Value>, Error> {
        let v = match positional.get(i) {
            Some(v) => v.clone(),
            None if named.has(name) => named.get(name)?,
            None => return Ok(None),
        };
        Ok(Some(v).filter(|v| !v.is_none()))
    };
    let truthy = |v: Option<Value>| v.is_some_and(|v| v.is_true());
    let indent = argument(1, "indent")?.map(|v| indent(&v)).transpose()?;
    let (item, key) = match argument(2, "separators")? {
        Some(v) => separators(&v)?,
        None if indent.is_some() => (",".into(), ": ".into()),
        None => (", ".into(), ": ".into()),
    };
    let style = Style {
        ensure_ascii: truthy(argument(0, "ensure_ascii")?),
        indent,
        item_separator: item,
        key_separator: key,
        sort_keys: truthy(argument(3, "sort_keys")?),
        limit: MAX_OUTPUT,
    };
    named.assert_all_used()?;
    dumps(value, &style).map(Value::from)
}

/// Python indents by a number of spaces or by a string.
fn indent(v: &Value) -> Result<String, Error> {
    if let Some(s) = v.as_str() {
        return Ok(s.to_owned());
    }
    let n = i64::try_from(v.clone())?.clamp(0, 1024);
    Ok(" ".repeat(n as usize))
}

fn separators(v: &Value) -> Result<(String, String), Error> {
    let bad = || Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two strings");
    let parts = v.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
    match &parts[..] {
        [item, key] => Ok((item.as_str().ok_or_else(bad)?.into(), key.as_str().ok_or_else(bad)?.into())),
        _ => Err(bad()),
    }
}

/// `{% generation %}` marks what the assistant says, for training; here it only
/// renders its body.
fn plain_generation(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return source.into();
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(len) = rest[start + 2..].find("%}") else { break };
        let end = start + 2 + len;
        let tag = &rest[start..end];
        out.push_str(&rest[..start]);
        match tag[2..].trim_matches(|c: char| matches!(c, '-' | '+') || c.is_whitespace()) {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out.into()
}

/// Takes what a render writes, up to the limit.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl Write for Bounded {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + b.len() > MAX_OUTPUT {
            self.full = true;
            return Err(io::Error::other("output too long"));
        }
        self.bytes.extend_from_slice(b);
        Ok(b.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Local = Local { seconds: 1_722_000_000, micros: 0 };

    fn rendered(source: &str, context: &str) -> Result<String, String> {
        Template::compile(source)?.render(context.as_bytes(), NOON)
    }

    #[test]
    fn generation_tags_render_their_body() {
        for (source, want) in [
            ("a{% generation %}b{% endgeneration %}c", "abc"),
            ("a {%- generation -%} b {%- endgeneration -%} c", "abc"),
            ("{% set generation = 1 %}{{ generation }}", "1"),
            ("{% generation %}{% generation %}x{% endgeneration %}{% endgeneration %}", "x"),
        ] {
            assert_eq!(rendered(source, "{}"), Ok(want.into()), "{source}");
        }
        for broken in ["{%}generation", "{% generation", "{% generation %}", "{%%}generation"] {
            assert!(rendered(broken, "{}").is_err(), "{broken}");
        }
    }

    #[test]
    fn tojson_takes_what_pythons_does() {
        for (source, want) in [
            ("{{ x|tojson }}", r#"{"b": [1], "a": "é"}"#),
            ("{{ x|tojson(true) }}", r#"{"b": [1], "a": "\u00e9"}"#),
            ("{{ x|tojson(false, 1) }}", "{\n \"b\": [\n  1\n ],\n \"a\": \"é\"\n}"),
            ("{{ x|tojson(indent=none, separators=(',', ':'), sort_keys=true) }}", r#"{"a":"é","b":[1]}"#),
            ("{{ x.b|tojson(indent='\t') }}", "[\n\t1\n]"),
        ] {
            assert_eq!(rendered(source, r#"{"x":{"b":[1],"a":"é"}}"#), Ok(want.into()), "{source}");
        }
        for bad in ["{{ 1|tojson(separators=5) }}", "{{ 1|tojson(separators=(1, 2)) }}", "{{ 1|tojson(what=1) }}", "{{ nothing|tojson }}"] {
            assert!(rendered(bad, "{}").is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_iterable() {
        let source = "{% for v in all %}{{ 'y' if v is iterable else 'n' }}{% endfor %}{{ 'y' if nothing is iterable else 'n' }}";
        assert_eq!(rendered(source, r#"{"all":[[],{},"s",1,null,true]}"#), Ok("yyynnny".into()));
    }

    #[test]
    fn errors_name_the_place_and_are_short() {
        let e = rendered("a\n{{ raise_exception('no system role') }}", "{}").unwrap_err();
        assert_eq!(e, "render: invalid operation: no system role (in chat_template:2)");
        let e = rendered("{{ raise_exception('é' * 100000) }}", "{}").unwrap_err();
        assert!(e.len() <= MAX_ERROR + 3 && e.ends_with("..."));
    }

    #[test]
    fn one_template_serves_many_renders() {
        let t = Template::compile("{{ x }}").unwrap();
        for i in 0..3 {
            assert_eq!(t.render(format!("{{\"x\":{i}}}").as_bytes(), NOON), Ok(i.to_string()));
        }
        assert!(t.render(b"[]", NOON).is_err());
    }
}
