package demo

import "fmt"

// question is a question whose draft scores high enough to be served in the warm-up.
const question = "Why do cats purr?"

// printWelcome prints the addresses and what happens next.
func (d *demo) printWelcome() {
	addr, admin := d.front.Addr().String(), d.admin()
	_, _ = fmt.Fprintf(d.Stdout, `Foregate demo: %d replicas, draft pool 2 x a10g-8b, target pool 1 x h100-70b-tp4 (simulated, %gx speed)

  requests   http://%s/v1/chat/completions
  console    http://%s/console/#token=%s
  metrics    http://%s/metrics

Try it:

  curl -sN http://%s/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"%s","stream":true,"messages":[{"role":"user","content":"%s"}]}'

The models are simulated and answer with random words. Of all drafts of this traffic the target would refuse about 9 in 100.
The route is in its warm-up: drafts above a cautious threshold (an eighth of them at first, then the best third) are served,
marked phase=warmup, and audited. The target answers the others. Usually a threshold is certified within five minutes. From then
on a guarantee holds: of the drafts that are served, the target would refuse at most 10 in 100. The lines below show the
progress, and so does

  bin/foregate risk show --admin http://%s

`, d.Replicas, d.TimeScale, addr, admin, d.token, admin, addr, route, question, admin)
}

// admin is the address of the admin listener.
func (d *demo) admin() string { return d.replicas[0].AdminAddr().String() }

// printOperation prints commands that change the demo, with the secrets of this run. A password in the
// environment is hidden from the list of processes; the token in the curl line is not.
func (d *demo) printOperation() {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(d.Stdout, format+"\n", args...) } // the reader may be gone
	say("Operate it; passwords and tokens are new in each run:\n")
	redis := "redis-cli" // with the credentials of --redis, which may include a password
	if at := d.Redis.Addr; at != nil {
		redis = fmt.Sprintf("redis-cli -h %s -p %d", at.IP, at.Port)
		say("  export REDISCLI_AUTH=%s FOREGATE_REDIS=redis://:%s@%s/0", d.Redis.Password, d.Redis.Password, at)
	}
	say("  %s HSET foregate:settings speculation.mode@%s off    # in force within a second; HDEL takes it back", redis, route)
	say("  bin/foregate settings set --because 'a try' shed.low=0.7    # the same, checked first and with a history")
	say("  curl -X POST -H 'Authorization: Bearer %s' 'http://%s/admin/drain?backend=%s&for=1m'", d.token, d.admin(), d.replicas[0].Backends(draftPool)[0])
	say("  bin/foregate status --admin http://%s", d.admin())
	say("\nCtrl-C stops everything.\n")
}
