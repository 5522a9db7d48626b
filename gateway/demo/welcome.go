package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/foregate/foregate/gateway"
)

// question is a question whose draft scores high enough to be served in the warm-up.
const question = "Why do cats purr?"

// printWelcome prints the addresses and what happens next. With a pair it chooses the mode before.
func (d *demo) printWelcome(ctx context.Context) error {
	if d.Pair != nil {
		return d.welcomePair(ctx)
	}
	d.welcomeSimulated()
	return nil
}

// welcomePair chooses the mode of the pair, and prints what runs. Engines that are not known yet allow none.
func (d *demo) welcomePair(ctx context.Context) error {
	unknown := "its engines are not known yet"
	drafts := &gateway.DraftView{UnavailableModes: []gateway.UnavailableView{{Name: "risk", Reason: unknown}, {Name: "verify", Reason: unknown}, {Name: "confidence", Reason: unknown}}}
	if known := d.replicas[0].Status().Drafts; len(known) == 1 && d.replicas[0].EnginesKnown() {
		drafts = &known[0]
	}
	mode, able := choose(drafts)
	if err := d.setMode(ctx, mode); err != nil {
		return err
	}
	addr, admin := d.Listener.Addr().String(), d.admin()
	d.say(`Foregate demo: replicas in front of your engines: %d

  draft      %s  %s  (%s)
  target     %s  %s  (%s)

%s
  requests   http://%s/v1/chat/completions
  console    http://%s/console/#token=%s
  metrics    http://%s/metrics

Try it:

  curl -sN -D - http://%s/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"%s","stream":true,"max_tokens":200,"messages":[{"role":"user","content":"%s"}]}'

X-Tier says which engine answered, X-Acceptance why. To see more drafts served, without a guarantee:

  bin/foregate settings set%s --because 'more drafts' speculation.mode@%s=confidence speculation.threshold_nats@%s=-0.5

Dollars are made up: the draft costs $%g an hour and the target $%g
(--draft-usd-per-hour, --target-usd-per-hour). economy.guard is off, so that drafts are made even where they do not pay.
A line appears below when something happens.

`, d.Replicas, d.Pair.Draft.URL, d.Pair.Draft.Model, d.kind(pairDraft), d.Pair.Target.URL, d.Pair.Target.Model, d.kind(pairTarget),
		able, addr, admin, d.token, admin, addr, d.route, question, d.redisFlag(), d.route, d.route, d.Pair.Draft.USDPerHour, d.Pair.Target.USDPerHour)
	return nil
}

// redisFlag is the flag of commands that change settings in the embedded Redis; "" if Redis is elsewhere.
func (d *demo) redisFlag() string {
	if d.Redis.Addr == nil {
		return ""
	}
	return fmt.Sprintf(" --redis redis://:%s@%s/0", d.Redis.Password, d.Redis.Addr)
}

// setMode makes a mode the route's, and waits until each replica has it.
func (d *demo) setMode(ctx context.Context, mode string) error {
	ctx, cancel := context.WithTimeout(ctx, modeTimeout)
	defer cancel()
	err := d.Stores.Control.HSet(ctx, "foregate:settings", "speculation.mode@"+d.route, mode, "speculation.verify_rule@"+d.route, "lenient", "economy.guard@"+d.route, "off").Err()
	if err != nil {
		return fmt.Errorf("the mode cannot be set: %w", err)
	}
	d.await(ctx, func() bool {
		for _, a := range d.replicas {
			if drafts := a.Status().Drafts; len(drafts) != 1 || drafts[0].Mode != mode {
				return false
			}
		}
		return true
	})
	return nil
}

// kind is the kind of engine of a pool, as the gateway has found it.
func (d *demo) kind(pool string) string {
	for _, b := range d.replicas[0].Pool(pool).Snapshot() {
		if b.Engine != "" {
			return string(b.Engine)
		}
	}
	return "unknown engine"
}

// unanswered says why engines are not known yet; "" if they have refused nothing.
func (d *demo) unanswered() string {
	var all []string
	for _, e := range d.replicas[0].Status().Engines {
		if e.Age < 0 && e.Failed != "" {
			all = append(all, e.Pool+": "+e.Failed)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// welcomeSimulated prints the welcome of the simulated pools.
func (d *demo) welcomeSimulated() {
	addr, admin := d.Listener.Addr().String(), d.admin()
	d.say(`Foregate demo: %d replicas, draft pool 2 x a10g-8b, target pool 1 x h100-70b-tp4 (simulated, %gx speed)

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

`, d.Replicas, d.TimeScale, addr, admin, d.token, admin, addr, d.route, question, admin)
}

// admin is the address of the admin listener.
func (d *demo) admin() string { return d.replicas[0].AdminAddr().String() }

// printOperation prints commands that change the demo, with the secrets of this run. A password in the
// environment is hidden from the list of processes; the token in the curl line is not.
func (d *demo) printOperation() {
	d.say("Operate it; passwords and tokens are new in each run:\n\n")
	redis := "redis-cli" // with the credentials of --redis, which may include a password
	if at := d.Redis.Addr; at != nil {
		redis = fmt.Sprintf("redis-cli -h %s -p %d", at.IP, at.Port)
		d.say("  export REDISCLI_AUTH=%s FOREGATE_REDIS=redis://:%s@%s/0\n", d.Redis.Password, d.Redis.Password, at)
	}
	d.say("  %s HSET foregate:settings speculation.mode@%s off    # in force within a second; HDEL takes it back\n", redis, d.route)
	d.say("  bin/foregate settings set --because 'a try' shed.low=0.7    # the same, checked first and with a history\n")
	d.say("  curl -X POST -H 'Authorization: Bearer %s' 'http://%s/admin/drain?backend=%s&for=1m'\n", d.token, d.admin(), d.replicas[0].Pool(d.draftPool).Snapshot()[0].ID)
	d.say("  bin/foregate status --admin http://%s\n", d.admin())
	stops := "everything"
	if d.Pair != nil {
		stops = "the gateway; your engines go on running"
	}
	d.say("\nCtrl-C stops %s.\n\n", stops)
}
