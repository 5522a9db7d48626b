package fields

import "testing"

func TestAnEngineThatNobodyKnowsIsSentOnlyWhatOpenAIsAPIHas(t *testing.T) {
	for name, want := range map[string]bool{
		"model": true, "messages": true, "prompt": true, "max_completion_tokens": true, "response_format": true, "tools": true, "reasoning_effort": true,
		"top_k": false, "min_p": false, "repetition_penalty": false, "ignore_eos": false, "min_tokens": false, "stop_token_ids": false,
		"include_stop_str_in_output": false, Kwargs: false, "return_token_ids": false, "continuous_usage_stats": false, "anything": false, "": false,
		"guided_json": true, "structured_outputs": true, "continue_final_message": true, // without them the answer would be another one
	} {
		if got := Portable(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for _, f := range Table {
		if f.Verdict == Stripped && Portable(f.Name) {
			t.Errorf("%s is never forwarded", f.Name)
		}
	}
}
