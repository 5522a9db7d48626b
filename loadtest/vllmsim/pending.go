package vllmsim

// What the scheduler is about to offer, until it does.

func schedulerFor(o *Options, p Profile) *Scheduler { return NewScheduler(p, o.Policy == "priority") }

func slowDown(s *Scheduler, factor float64) { s.slow = factor }

func outOfMemory(*Scheduler) bool { return false }

func busySeconds(Counts) float64 { return 0 }
