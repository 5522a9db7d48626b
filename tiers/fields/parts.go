package fields

// Part is a type of content part.
type Part struct {
	Keys  []string // all keys that a part of this type may have, including type
	Media bool     // an engine decodes a file for it: refused unless the route lists the type in allow_fields

	Sources []string // the types that its member source may have; "string" is one that is a string
}

// Parts are the types of content parts by the value of their member type: of chats (OpenAI's and vLLM's), of
// responses (input_…, output_…, …_text) and of messages (Anthropic's). None has the key uuid: with it vLLM
// treats the type as unknown, searches for the names of media instead, and stores media under it for all
// tenants.
var Parts = map[string]Part{
	"text":              {Keys: []string{"type", "text", "cache_control", "citations"}},
	"input_text":        {Keys: []string{"type", "text"}},
	"output_text":       {Keys: []string{"type", "text", "annotations", "logprobs"}},
	"reasoning_text":    {Keys: []string{"type", "text"}},
	"summary_text":      {Keys: []string{"type", "text"}},
	"refusal":           {Keys: []string{"type", "refusal"}},
	"thinking":          {Keys: []string{"type", "thinking", "signature", "closed", "cache_control"}},
	"redacted_thinking": {Keys: []string{"type", "data"}},
	"tool_use":          {Keys: []string{"type", "id", "name", "input", "cache_control"}},
	"tool_result":       {Keys: []string{"type", "tool_use_id", "content", "is_error", "cache_control"}},

	"image_url":   {Keys: []string{"type", "image_url"}, Media: true},
	"audio_url":   {Keys: []string{"type", "audio_url"}, Media: true},
	"video_url":   {Keys: []string{"type", "video_url"}, Media: true},
	"input_audio": {Keys: []string{"type", "input_audio"}, Media: true},
	"input_image": {Keys: []string{"type", "image_url", "detail"}, Media: true},
	"image":       {Keys: []string{"type", "source", "cache_control"}, Media: true, Sources: []string{"base64"}},

	// Of messages, and translated into text: their sources are in the request.
	"document":       {Keys: []string{"type", "source", "title", "context", "citations", "cache_control"}, Sources: []string{"text", "content"}},
	"search_result":  {Keys: []string{"type", "source", "title", "content", "citations", "cache_control"}, Sources: []string{"string"}},
	"tool_reference": {Keys: []string{"type", "tool_name", "cache_control"}},
	"tool_addition":  {Keys: []string{"type", "tool", "cache_control"}},
	"tool_removal":   {Keys: []string{"type", "tool", "cache_control"}},
}
