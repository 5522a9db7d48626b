package settings

import (
	"fmt"

	"github.com/foregate/foregate/gateway/identity"
)

// minHighThreshold is the minimum of shed.high without shed.allow_high.
const minHighThreshold = 0.5

// threshold is the KV usage at which a class is shed.
type threshold struct {
	name string
	at   float64
}

// thresholds are those of the classes, the first to be shed first.
func thresholds(v *Values) []threshold {
	return []threshold{{shedLow, v.Admission.Threshold[identity.Low]}, {shedNormal, v.Admission.Threshold[identity.Normal]}, {shedHigh, v.Admission.Threshold[identity.High]}}
}

// broken returns the fields and the reason of the first rule between fields that values break, of all routes or of one.
func broken(v *Values) (fields []string, reason string) {
	all := thresholds(v)
	for i, upper := range all[1:] {
		if lower := all[i]; lower.at > upper.at {
			return []string{lower.name, upper.name}, fmt.Sprintf("%s %s is above %s %s", lower.name, decimal(lower.at), upper.name, decimal(upper.at))
		}
	}
	if v.Admission.Threshold[identity.High] < minHighThreshold && !v.AllowHighShed {
		return []string{shedHigh, shedAllowHigh}, fmt.Sprintf("shed.high %s is below %s and would turn even high away; shed.allow_high must be yes as well",
			decimal(v.Admission.Threshold[identity.High]), decimal(minHighThreshold))
	}
	for _, t := range all { // a threshold of 0 is a kill switch, which has no release
		if t.at > 0 && v.Admission.Hysteresis >= t.at {
			return []string{shedRelease, t.name}, fmt.Sprintf("shed.hysteresis %s is not below %s %s, so shedding would never end", decimal(v.Admission.Hysteresis), t.name, decimal(t.at))
		}
	}
	return nil, ""
}
