package ipc

import (
	"encoding/json"
	"errors"
	"testing"

	"ingot/runtime/turn"
)

func piece(choice int, kind turn.EventType, s string, ids ...turn.TokenID) turn.Event {
	t := &turn.Text{Delta: s, TokenIDs: ids}
	for range ids {
		t.Logprobs = append(t.Logprobs, turn.Logprob{TopLogprob: turn.TopLogprob{Token: s, Logprob: -1},
			Top: []turn.TopLogprob{{Token: "alt", Logprob: -2}}})
	}
	return turn.Event{Turn: "t", Type: kind, Choice: &choice, Text: t}
}

func TestAnswerGathersChoices(t *testing.T) {
	var a Answer
	for _, e := range []turn.Event{
		{Turn: "t", Type: turn.EventQueued, Queued: &turn.Queued{}},
		piece(1, turn.EventText, "b", 2),
		piece(0, turn.EventReasoning, "hm", 9),
		piece(0, turn.EventText, "a", 1), piece(0, turn.EventText, "A", 3),
	} {
		a.Add(e)
	}
	if a.Err() == nil {
		t.Error("no end, no error")
	}
	a.Add(turn.Event{Turn: "t", Type: turn.EventDone, Done: &turn.Done{FinishReason: turn.FinishStop,
		FinishReasons: []turn.Finish{turn.FinishStop, turn.FinishLength, turn.FinishStop}, Usage: turn.Usage{TotalTokens: 4}}})
	if err := a.Err(); err != nil {
		t.Fatal(err)
	}
	c := a.Chat("m", 5)
	if len(c.Choices) != 3 || c.Choices[0].Message.Content != "aA" || c.Choices[0].Message.ReasoningContent != "hm" ||
		c.Choices[1].FinishReason != turn.FinishLength || c.Choices[2].Message.Content != "" ||
		len(c.Choices[0].TokenIDs) != 3 || len(c.Choices[0].Logprobs.Content) != 3 || c.ID != "chatcmpl-t" || c.Usage.TotalTokens != 4 {
		t.Errorf("%+v", c)
	}
	x := a.Completion("m", 5)
	if x.Choices[1].Text != "b" || x.Choices[1].Logprobs.TopLogprobs[0]["alt"] != -2 || x.Choices[2].Logprobs != nil {
		t.Errorf("%+v", x)
	}
	if a.Text(0) != "aA" || a.Text(7) != "" {
		t.Error("Text")
	}
}

func TestAnswerKeepsTheError(t *testing.T) {
	var a Answer
	a.Add(turn.Event{Type: turn.EventError, Failure: Errorf(NoRoom, "full").With("need", 3).Failure()})
	if !errors.Is(a.Err(), NoRoom) {
		t.Error(a.Err())
	}
}

// The keys that OpenAI's clients read.
func TestChatCompletionKeys(t *testing.T) {
	var a Answer
	a.Add(turn.Event{Turn: "t", Type: turn.EventDone, Done: &turn.Done{FinishReason: turn.FinishCancelled}})
	raw, err := json.Marshal(a.Chat("m", 1))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	choice := m["choices"].([]any)[0].(map[string]any)
	if m["object"] != "chat.completion" || choice["finish_reason"] != "cancelled" || choice["logprobs"] != nil || m["ingot"] == nil ||
		choice["message"].(map[string]any)["role"] != "assistant" {
		t.Errorf("%s", raw)
	}
}
