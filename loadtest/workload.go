package loadtest

// Message is one turn of a conversation.
type Message struct{ Role, Content string }

// Request is one request of the load.
type Request struct {
	Session, Turn    int
	Prompt           string // name of its kind
	Tenant, Priority string
	RAGHash          string // "" is none
	Messages         []Message
	MaxTokens        int  // 0 is no limit
	IgnoreEOS        bool // the answer is exactly MaxTokens long
	Temperature      float64
	Stream           bool
}
