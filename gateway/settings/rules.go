package settings

import "fmt"

// minHighThreshold is the minimum of shed.high without shed.allow_high.
const minHighThreshold = 0.5

// rule is a condition between fields.
type rule struct {
	fields []string
	broken func(v *Values) string // the reason, "" when it holds
}

// rules hold for the global values and for every route's.
var rules = []rule{
	{[]string{shedLow, shedNormal}, func(v *Values) string {
		return above(shedLow, v.Admission.Low, shedNormal, v.Admission.Normal)
	}},
	{[]string{shedNormal, shedHigh}, func(v *Values) string {
		return above(shedNormal, v.Admission.Normal, shedHigh, v.Admission.High)
	}},
	{[]string{shedHigh, shedAllowHigh}, func(v *Values) string {
		if v.Admission.High >= minHighThreshold || v.AllowHighShed {
			return ""
		}
		return fmt.Sprintf("shed.high %s is below %s and would turn even high away; shed.allow_high must be yes as well",
			decimal(v.Admission.High), decimal(minHighThreshold))
	}},
	{[]string{shedRelease, shedLow}, func(v *Values) string { return swallows(v, shedLow, v.Admission.Low) }},
	{[]string{shedRelease, shedNormal}, func(v *Values) string { return swallows(v, shedNormal, v.Admission.Normal) }},
	{[]string{shedRelease, shedHigh}, func(v *Values) string { return swallows(v, shedHigh, v.Admission.High) }},
}

// broken returns the fields of the first broken rule and the reason.
func broken(v *Values) (fields []string, reason string) {
	for _, r := range rules {
		if reason := r.broken(v); reason != "" {
			return r.fields, reason
		}
	}
	return nil, ""
}

func above(lower string, a float64, upper string, b float64) string {
	if a <= b {
		return ""
	}
	return fmt.Sprintf("%s %s is above %s %s", lower, decimal(a), upper, decimal(b))
}

// swallows refuses a release with which shedding would never end. A threshold of 0 is a kill switch, which
// has no release.
func swallows(v *Values, name string, threshold float64) string {
	if threshold == 0 || v.Admission.Hysteresis < threshold {
		return ""
	}
	return fmt.Sprintf("shed.hysteresis %s is not below %s %s, so shedding would never end",
		decimal(v.Admission.Hysteresis), name, decimal(threshold))
}
