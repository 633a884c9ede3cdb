package text

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestJSONKeepsOrderAndNumbers(t *testing.T) {
	in := `{"b":1.50,"a":[true,null,"é<\"\n",{}],"b":12345678901234567890,"c":{"z":1e3,"y":[]}}`
	want := `{"b":12345678901234567890,"a":[true,null,"é<\"\n",{}],"c":{"z":1e3,"y":[]}}`
	v, err := parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(encode(v)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestJSONStrings(t *testing.T) {
	v, _ := parse([]byte(`{"a":["b",1,{"c":"d"}]}`))
	if got := string(encode(v.strings(strings.ToUpper))); got != `{"A":["B",1,{"C":"D"}]}` {
		t.Errorf("got %s", got)
	}
	if got := string(encode(v)); got != `{"a":["b",1,{"c":"d"}]}` {
		t.Errorf("the original became %s", got)
	}
}

func TestJSONRefuses(t *testing.T) {
	for _, in := range []string{"", "{", `{"a"`, `{"a":}`, "[1,]", "1 2", strings.Repeat("[", 1000), strings.Repeat(`{"a":`, 1000)} {
		if _, err := parse([]byte(in)); err == nil {
			t.Errorf("%.20q is taken", in)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,"b",null]}`, `"\ud800"`, `[[[]]]`, `-0.0e+1`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := parse(in)
		if err != nil {
			return
		}
		out := encode(v)
		var a, b any
		if json.Unmarshal(in, &a) != nil || json.Unmarshal(out, &b) != nil {
			if bytes.Contains(in, []byte("e")) || bytes.Contains(in, []byte("E")) {
				return // a number that no float holds
			}
			t.Fatalf("%q became %q", in, out)
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%q became %q", in, out)
		}
	})
}
