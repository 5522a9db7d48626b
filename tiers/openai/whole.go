package openai

// Whole is a complete answer, whichever way it came: from it both a JSON body and a stream can be
// written.
type Whole struct {
	Kind    Kind
	Choices []Choice
	Usage   Usage
}

// Choice is one of the answer's choices.
type Choice struct {
	Text      []byte // content, or text of a completion
	Null      bool   // the content is null: there are only calls
	Reasoning []byte // what a reasoning parser took out of the text
	As        string // under which name it came: reasoning_content or reasoning
	Calls     []Call
	Finish    string
	Stop      []byte // stop_reason as raw JSON; nil is null
}

// Call is a call of a tool.
type Call struct{ ID, Type, Name, Arguments string }

// Assembler puts an answer together from what of it went to the client. What it does not understand whole
// makes the answer unusable ([Assembler.Whole] fails) rather than incomplete.
type Assembler struct{}

// NewAssembler is for an answer of the given kind; one of more than most bytes is given up.
func NewAssembler(kind Kind, most int) *Assembler { panic("not built yet") }

// Text appends text of a plain answer: one choice that is text and nothing else.
func (a *Assembler) Text(b []byte) { panic("not built yet") }

// Chunk takes in the JSON of a chunk that may be more than that. From the first on, all come here.
func (a *Assembler) Chunk(raw []byte) { panic("not built yet") }

// Body takes in a whole JSON answer.
func (a *Assembler) Body(raw []byte) { panic("not built yet") }

// End takes in how a plain answer ended, and the usage of any.
func (a *Assembler) End(e Ending) { panic("not built yet") }

// Whole is the answer, or why there is none: it is not complete, too long, or holds what only its backend understands.
func (a *Assembler) Whole() (*Whole, error) { panic("not built yet") }

// Append appends the answer in a compact form of our own, for ParseWhole.
func (w *Whole) Append(dst []byte) []byte { panic("not built yet") }

// ParseWhole reads what Append wrote. Foreign bytes are an error. The result may share memory with b.
func ParseWhole(b []byte) (*Whole, error) { panic("not built yet") }

// Whole appends a whole answer as one JSON object.
func (f *Framer) Whole(dst []byte, w *Whole, extra []byte) []byte { panic("not built yet") }

// WholeStream appends all frames of a whole answer, from the role to the terminator, cut at words as a model would
// give them.
func (f *Framer) WholeStream(dst []byte, w *Whole, extra []byte, withUsage bool) []byte {
	panic("not built yet")
}

// Canonical appends what of the request decides the answer: every member of the body but those of [Ephemeral] and the
// ones that are not sent on, sorted by name, in canonical JSON. Equal bytes mean equal requests to any
// JSON parser; whole numbers keep all their digits.
func (r *Request) Canonical(dst []byte) ([]byte, error) { panic("not built yet") }

// Ephemeral are the fields that do not change what an answer says.
var Ephemeral = []string{"stream", "stream_options", "user"}
