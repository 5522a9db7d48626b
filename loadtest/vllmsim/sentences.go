package vllmsim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// sentenceForms are the sentences of [Options.Sentences], word by word. {a|b} is one of several words, where _ stands for
// a space; @ is the subject of an answer. Sentences begin with different words.
const sentenceForms = `
{Most|Many|Some} {teams|people|engineers} {start|begin} with {a|one} {small|simple|plain} @ {and|then} {change|improve|replace} it {later|soon|slowly}.
The {first|main|next} {question|problem|point} is {how|when|where} the @ {stops|waits|changes}, {and|so} {that|this} is {easy|cheap|quick} to {measure|test|check}.
A {good|clear|careful} {test|plan|report} {shows|tells|explains} {what|how_much} the @ {needs|costs|uses}.
When the @ is {busy|slow|full}, {requests|readers|people} {wait|leave|return}, {but|and} {nothing|little} is {lost|broken}.
Each @ {has|needs} {a|one} {limit|budget|plan}, and {that|the} {limit|number|value} {should|must|can} be {small|clear|exact}.
It is {usually|often|almost_always} {better|safer|cheaper} to {measure|test|compare} the @ {first|again} than to {guess|wait|hope}.
In {practice|short|most_cases}, the {small|simple|old} @ is {enough|fine|useful} for {most|many|common} {requests|questions|readers}.
There are {two|three|several} {ways|reasons} to {keep|build|use} the @ {slowly|carefully|together}: {cost|time|safety} and {speed|trust|size}.
This {works|holds} {because|while|when} the @ {keeps|writes|checks} {every|each} {answer|record|change}.
If the @ {grows|changes|stops}, {add|check|move} {the|one} {log|index|table} {before|after} {anything|everything} else.
Another {way|option} is to {split|share|store} the @ by {day|group|size}, which {takes|needs} {more|less} {memory|time|care}.
For {example|instance}, one @ {serves|handles} {three|ten|many} {users|offices|cities} and {still|often} {answers|works} {quickly|alone}.
You can {see|find|read} {this|that} in the {report|record|log} of the @ {after|within} {an_hour|a_day|a_week}.
That {costs|takes} {little|some_work} at {first|night}, {but|and} it {pays|helps} {later|every_day}.
As the @ {ages|grows|fills}, {its|the} {answers|records|pages} {become|get} {longer|slower|harder} to {read|check|move}.
Here the {order|size|price} of the @ {matters|counts} {more|less} than its {speed|shape|name}.
`

const sentenceSubjects = `{server|cache|model|queue|index|service|program|system|report|budget|network|engine}`

// sentences is the graph of all sentences: what may follow at each node. A path from first or next ends at next.
type sentences struct{ nodes []sentenceNode }

type sentenceNode struct {
	subject bool // the first candidate is the answer's subject
	edges   []sentenceEdge
}

type sentenceEdge struct{ id, to int32 }

// The nodes that are known by number: before an answer's first sentence, and before each that follows. A context that
// goes beyond the sentences is at noSentence until one ends.
const (
	firstSentence, nextSentence int32 = 0, 1

	noSentence int32 = -1
)

var defaultSentences = sync.OnceValue(func() *sentences {
	g := &sentences{nodes: make([]sentenceNode, 2)}
	for line := range strings.Lines(strings.TrimSpace(sentenceForms)) {
		words := strings.Fields(line)
		after := g.node()
		g.word(firstSentence, after, "", words[0])
		g.word(nextSentence, after, " ", words[0])
		for i, w := range words[1:] {
			from := after
			if g.nodes[from].subject = w == "@"; g.nodes[from].subject {
				w = sentenceSubjects
			}
			if after = nextSentence; i < len(words)-2 {
				after = g.node()
			}
			g.word(from, after, " ", w)
		}
	}
	return g
})

func (s *sentences) node() int32 {
	s.nodes = append(s.nodes, sentenceNode{})
	return int32(len(s.nodes) - 1)
}

// word adds the ways from one node to another that a word of a form allows.
func (s *sentences) word(from, to int32, before, word string) {
	list, after, slot := strings.Cut(strings.TrimPrefix(word, "{"), "}")
	options := []string{word}
	if slot {
		options = strings.Split(list, "|")
	}
	for _, o := range options {
		ids := DefaultTokenizer().Encode(before + strings.ReplaceAll(o, "_", " ") + after)
		at := from
		for i, id := range ids {
			last := i == len(ids)-1
			next, known := s.step(at, id)
			switch {
			case known && (last || next == to):
				panic(fmt.Sprintf("vllmsim: %q begins as another word of its sentence does", o))
			case last:
				next = to
			case !known:
				next = s.node()
			}
			if !known {
				s.nodes[at].edges = append(s.nodes[at].edges, sentenceEdge{id, next})
			}
			at = next
		}
	}
}

func (s *sentences) step(at, id int32) (to int32, known bool) {
	edges := s.nodes[at].edges
	i := slices.IndexFunc(edges, func(e sentenceEdge) bool { return e.id == id })
	if i < 0 {
		return 0, false
	}
	return edges[i].to, true
}

// after is where a context is that goes on with id.
func (s *sentences) after(at, id int32, t *Tokenizer) int32 {
	if id == t.ids["\n\n"] {
		return firstSentence
	}
	if at != noSentence {
		if to, known := s.step(at, id); known {
			return to
		}
	}
	if t.class[id] == clsEnd {
		return nextSentence
	}
	return noSentence
}

// candidates draws what may come at a node.
func (s *sentences) candidates(at int32, v *voice, h uint64, ids *[numCands]int32) {
	n := &s.nodes[at]
	for i := range ids {
		ids[i] = n.edges[mix(h, uint64(0x100+i))%uint64(len(n.edges))].id
	}
	if n.subject {
		ids[0] = n.edges[v.hash%uint64(len(n.edges))].id
	}
}
