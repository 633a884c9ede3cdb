package ipc

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"ingot/runtime/turn"
)

// MethodDoc describes one method for people and programs.
type MethodDoc struct {
	Name    Method
	Summary string
	Params  Params
	Result  any    // a value of the type that answers
	Stream  any    // with "stream": true, what answers instead
	Events  Method // the notifications that follow, if any
}

// Methods lists every method, in the order of the documentation.
var Methods = []MethodDoc{
	{Name: DaemonStatus, Summary: "the whole state of the daemon", Params: new(NoParams), Result: Status{}},
	{Name: DaemonWatch, Summary: "answers, then sends the state and its changes", Params: new(NoParams), Result: Empty{}, Events: NoteDaemon},
	{Name: DaemonUnwatch, Summary: "ends daemon.watch on this connection", Params: new(NoParams), Result: Empty{}},
	{Name: DaemonStop, Summary: "drains and ends the daemon; answers at once", Params: new(NoParams), Result: Empty{}},
	{Name: ModelsList, Summary: "the models on disk", Params: new(NoParams), Result: ModelList{}},
	{Name: ModelsShow, Summary: "one model, looked at without loading it", Params: new(ModelParams), Result: ModelDetail{}},
	{Name: ModelsPull, Summary: "fetches a model or imports a GGUF file; answers when it is there", Params: new(PullParams), Result: PullResult{}, Stream: PullRef{}, Events: NotePull},
	{Name: ModelsRemove, Summary: "deletes a model from disk", Params: new(ModelParams), Result: Empty{}},
	{Name: ModelsLoad, Summary: "loads a model; answers when it is ready", Params: new(LoadParams), Result: ModelStatus{}},
	{Name: ModelsUnload, Summary: "ends a model's process", Params: new(ModelParams), Result: Empty{}},
	{Name: ModelsPin, Summary: "keeps a model loaded, or no longer", Params: new(PinParams), Result: Empty{}},
	{Name: ModelsAlias, Summary: "gives a model another name; null takes it away", Params: new(AliasParams), Result: Empty{}},
	{Name: ChatCreate, Summary: "answers a conversation (an OpenAI chat completion request)", Params: new(ChatRequest), Result: ChatCompletion{}, Stream: TurnRef{}, Events: NoteTurn},
	{Name: CompletionCreate, Summary: "continues a prompt (an OpenAI completion request)", Params: new(CompletionRequest), Result: Completion{}, Stream: TurnRef{}, Events: NoteTurn},
	{Name: TurnCancel, Summary: "ends a turn with finish reason cancelled", Params: new(TurnRef), Result: Empty{}},
	{Name: TurnAttach, Summary: "sends a turn's events from from_seq on, over this connection", Params: new(AttachParams), Result: TurnRef{}, Events: NoteTurn},
	{Name: TokensEncode, Summary: "text to token ids", Params: new(EncodeParams), Result: EncodeResult{}},
	{Name: TokensDecode, Summary: "token ids to text", Params: new(DecodeParams), Result: DecodeResult{}},
	{Name: TokensCount, Summary: "how many tokens a text or a conversation has", Params: new(CountParams), Result: CountResult{}},
	{Name: LogsTail, Summary: "the last lines of the daemon's log", Params: new(LogsParams), Result: LogsResult{}},
	{Name: RPCDiscover, Summary: "this document", Params: new(NoParams), Result: map[string]any{}},
}

// Discover returns the OpenRPC document of every method.
func Discover() map[string]any {
	var methods []any
	for _, m := range Methods {
		methods = append(methods, m.openRPC())
	}
	return map[string]any{
		"openrpc": "1.3.2",
		"info":    map[string]any{"title": "Ingot", "version": Version, "x-protocol": Protocol},
		"methods": methods,
		"components": map[string]any{
			"errors": tableErrors(),
			"schemas": map[string]any{
				NoteTurn:   typeSchema(reflect.TypeFor[turn.Event]()),
				NoteDaemon: typeSchema(reflect.TypeFor[Event]()),
				NotePull:   typeSchema(reflect.TypeFor[PullEvent]()),
			},
		},
	}
}

func (m *MethodDoc) openRPC() map[string]any {
	params := []any{}
	for _, r := range m.Params.rules() {
		s := r.schema
		if s == nil {
			s = schema{}
		}
		params = append(params, map[string]any{"name": r.name, "required": r.required, "schema": s})
	}
	result := typeSchema(reflect.TypeOf(m.Result))
	if m.Stream != nil {
		result = schema{"oneOf": []schema{result, typeSchema(reflect.TypeOf(m.Stream))}}
	}
	doc := map[string]any{"name": m.Name, "summary": m.Summary, "paramStructure": "by-name",
		"params": params, "result": map[string]any{"name": "result", "schema": result}}
	if m.Events != "" {
		doc["x-events"] = m.Events
	}
	return doc
}

func tableErrors() map[string]any {
	errs := map[string]any{}
	for _, r := range Table {
		errs[string(r.Name)] = map[string]any{"code": r.Code, "message": r.Means, "x-http": r.HTTP,
			"data": map[string]any{"name": r.Name}}
	}
	return errs
}

var rawType = reflect.TypeFor[json.RawMessage]()

// typeSchema describes what encoding/json makes of a type. Types here do not
// contain themselves.
func typeSchema(t reflect.Type) schema {
	if t == rawType {
		return schema{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schema{"oneOf": []schema{typeSchema(t.Elem()), {"type": "null"}}}
	case reflect.Struct:
		props := schema{}
		addFields(t, props)
		return schema{"type": "object", "properties": props}
	case reflect.Slice:
		return schema{"type": "array", "items": typeSchema(t.Elem())}
	case reflect.Map:
		return schema{"type": "object"}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		return schema{"type": "integer"}
	}
	return schema{}
}

func addFields(t reflect.Type, props schema) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		ft := f.Type
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			addFields(ft, props)
		default:
			props[name] = typeSchema(ft)
		}
	}
}

// Names returns the fields a method takes, required ones first.
func (m *MethodDoc) Names() (required, optional []string) {
	for _, r := range m.Params.rules() {
		if r.required {
			required = append(required, r.name)
		} else {
			optional = append(optional, r.name)
		}
	}
	return required, optional
}

// fields returns the names of what a result has.
func fields(v any) []string {
	props, _ := typeSchema(reflect.TypeOf(v))["properties"].(schema)
	return slices.Sorted(maps.Keys(props))
}
