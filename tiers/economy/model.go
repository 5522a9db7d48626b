package economy

// Mode is a way to answer in [Model], by its letter in [EstimateCost].
type Mode string

// The modes.
const (
	TargetOnly Mode = "target"     // T: no draft
	Confidence Mode = "confidence" // C: the draft's own confidence decides after m tokens
	WholeCheck Mode = "whole"      // W: the target scores the whole draft before anything is released
)

// Workload is the input of [Model], by the symbols of [EstimateCost].
type Workload struct {
	Prompt, Output float64 // P and L, tokens; the output is above 0
	Holdback       float64 // m, tokens; WholeCheck does not use it
	Acceptance     float64 // A, 0..1
	Salvaged       float64 // g, 0..1: of the whole draft in WholeCheck
}

// Model is what a million output tokens cost in a mode, in USD, by the
// formulas of docs/science.md#cost-model. It is what measurements are held against; requests
// are decided by [EstimateCost], which also knows salvage without a score. A mode that is not
// one is the target alone.
func Model(mode Mode, p Prices, w Workload) float64 {
	cDP, cDD, cTP, cTD := p.DraftPrefill, p.DraftDecode, p.TargetPrefill, p.TargetDecode
	pr, l, m, a, g := w.Prompt, w.Output, w.Holdback, w.Acceptance, w.Salvaged
	var c float64
	switch mode {
	case Confidence:
		c = pr*cDP + (a*l+(1-a)*m)*cDD + (1-a)*(pr*cTP+l*cTD)
	case WholeCheck:
		c = pr*cDP + l*cDD + (pr+l)*cTP + (1-a)*(1-g)*l*cTD
	default:
		c = pr*cTP + l*cTD
	}
	return c / l * 1e6
}
