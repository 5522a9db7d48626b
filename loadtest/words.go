package loadtest

import "strings"

// vocabulary is common English: one token each for the simulator, a leading
// space included, and for nearly every real tokenizer, so that n words are n
// tokens. Their number is a power of two.
var vocabulary = strings.Fields(`
a about accept accepts across after again against air all allow allows almost alone already also
always and angle animal answer answers any are array ask asks at average be because becomes been
before behind being better between beyond bird blue both bread bridge bright bring brings budget
build builds busy but cache camera can capital careful carefully carries carry case cat central
certain chair change changes check checks child circle city clean cleans clear clearly client close
closed closes coffee cold color common company compare compares connect connects contain contains
cost could count country counts covers create creates cross crosses dark database day deep depends
describe describes destroys did different direct directly distance do doctor does dog done door
during each early eight empty energy engine enter enters even evening every exact exactly example
explain explains eye family few field file final find finds fire first fish five floor flower folder
follow follows force forest formal four fresh friend from fruit full function garden give gives
glass goal good green group had hand handle handles harbor has have head heavy hello here hidden
higher hold holds horse house how however hundred idea idle improve improves in include includes
increase increases index inner instead into is its join joins just keep keeps key keyboard kitchen
large late later lead leads leaf leave leaves less letter life light likely limit limits line load
loads local location lock long loop lose loses lower machine main make makes many market may means
measure measures meeting memory message metal method might milk million model modern more morning
most motion mountain move moves much must natural near need needs network never new next nine no not
now number object of office often old on one only open opens or other our outer over own paper part
partial pattern person picture place plain plan please poem point possible power prevent prevents
previous price private problem process program project protect protects prove proves public query
question queue quick quickly quiet quite rare rarely reach reaches read reader reads reason record
red reduce reduces reject rejects remains remote repair repairs report request requires result
return returns river road roof room root rough roughly rule run runs salt same sand screen second
secure seed send sends separates serve server serves seven several shallow shape shared sharp short
should show shows side signal similar simple six size slow slowly small smooth so solution some song
soon sound speed splits stable start starts station steady still stone stop stops store stores story
street string strong student such sugar summer system table take takes tea teacher team tell tells
ten test tests than thanks that the their then there therefore thing this thousand three through
ticket time to together token too train tree turn turns typical under use useful user uses usually
value variable very village visible wait waits wall warm was watch watches water way weak weather
week weight were what wheel when where which while who whole whose why will window winter with
without wood word world would write writer writes year
`)

// text returns n words, each preceded by a space. They are fixed by key and
// number: texts of one key differ from the first word on while their numbers
// are within 512 of each other, and within two words always.
func text(key draw, number uint64, n int) string {
	size := uint64(len(vocabulary))
	var b strings.Builder
	b.Grow(7 * n)
	rest, from := uint64(0), key.of(number)
	for i := range n {
		var word uint64
		switch i {
		case 0:
			word = uint64(key) + number
		case 1:
			word = uint64(key)>>32 + number/size
		default:
			if i%7 == 2 { // a draw is good for seven words
				rest = uint64(from.of(uint64(i)))
			}
			word, rest = rest, rest/size
		}
		b.WriteByte(' ')
		b.WriteString(vocabulary[word%size])
	}
	return b.String()
}
