package vllmsim

// schedulerFor makes the scheduler that the options ask for.
func schedulerFor(o *Options, p Profile) *Scheduler {
	return NewScheduler(p, SchedulerOptions{Priority: o.Policy == "priority", OOM: o.OOM})
}

func slowDown(s *Scheduler, factor float64) { s.SetSlow(factor) }

func outOfMemory(s *Scheduler) bool { return s.Dead() }

func busySeconds(c Counts) float64 { return c.Busy.Seconds() }
