package probe

// What is asked. Any change here changes every fingerprint, so that pools must be probed
// by the same release to be compared.

// texts are what the tokenizer's fingerprint is made of: each is where tokenizers
// differ.
var texts = []string{
	"The quick brown fox jumps over the lazy dog 1234567890 times, doesn't it?",
	"数据模型的答案是什么？東京と한국어の世界",
	"😀🎉 👩‍👩‍👧 🇫🇷 naïve Ünïcödé",
	"func main() {\n\tif err := run(); err != nil {\n\t\tos.Exit(1)\n\t}\n}",
	" a  b   c\t\td \r\n e \u00a0f",
	"\n\n",
	"<|im_start|>system<|im_end|><s>[INST]</s><|eot_id|><think>",
	"0.1 1e-9 0xFF 100,000 ١٢٣",
}

// message is one turn of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// chat is a canned conversation.
type chat struct {
	name     string
	messages []message
	tools    []any
}

// chats are what the template's fingerprint is made of. The first is plain: a template
// that refuses it has none.
var chats = []chat{
	{name: "plain", messages: []message{{"user", "What is the capital of France?"}}},
	{name: "system", messages: []message{{"system", "You are brief."}, {"user", "Hello there."}}},
	{name: "turns", messages: []message{{"user", "Hi"}, {"assistant", "Hello! What can I do for you?"}, {"user", " Count to three.\n"}}},
	{name: "tools", messages: []message{{"user", "What is the weather in Paris?"}}, tools: []any{map[string]any{
		"type": "function",
		"function": map[string]any{
			"name": "get_weather", "description": "Current weather in a city.",
			"parameters": map[string]any{
				"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
			},
		},
	}}},
}

// longQuestion has a long answer, so that its beginning can be compared.
const longQuestion = "Describe a walk through a market town on a rainy morning, in about two hundred words."

const (
	answerTokens = 16 // of each answer, at most
	scoredTokens = 8  // that are scored, after twice as many
	alternatives = 5  // of each token, as drafts are asked for
	maxBehind    = 6  // ids of an answer and behind it that may be its end
)
