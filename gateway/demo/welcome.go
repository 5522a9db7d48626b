package demo

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// question is a question whose draft scores high enough to be served in the warm-up.
const question = "Why do cats purr?"

// printWelcome prints the addresses, what happens next, and commands that change the demo, with the secrets of this run. A password in the environment is hidden from the list of processes; the token in
// the curl line is not.
func (d *demo) printWelcome(ctx context.Context) error {
	head, next, stops := d.welcomeSimulated()
	if d.Pair != nil {
		var err error
		if head, next, stops, err = d.welcomePair(ctx); err != nil {
			return err
		}
	}
	addr, admin := near(d.Listener.Addr()), near(d.replicas[0].AdminAddr())
	d.say(`Foregate demo: %s
  requests   http://%s/v1/chat/completions
  console    http://%s/console/#token=%s
  metrics    http://%s/metrics

Try it:

  curl -sN -D - http://%s/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"%s","stream":true,"max_tokens":200,"messages":[{"role":"user","content":"%s"}]}'

%s
Operate it; passwords and tokens are new in each run:

`, head, addr, admin, d.token, admin, addr, d.route, question, next)
	redis := "redis-cli" // with the credentials of --redis, which may include a password
	if at := d.RedisAddr; at != nil {
		redis = fmt.Sprintf("redis-cli -h %s -p %d", at.IP, at.Port)
		d.say("  export REDISCLI_AUTH=%s FOREGATE_REDIS=%s\n", d.Stores.Embedded.Password, d.redisURL())
	}
	d.say(`  %s HSET foregate:settings speculation.mode@%s off    # in force within a second; HDEL takes it back
  bin/foregate settings set --because 'a try' shed.low=0.7    # the same, checked first and with a history
  curl -X POST -H 'Authorization: Bearer %s' 'http://%s/admin/drain?backend=%s&for=1m'
  bin/foregate status --admin http://%s

Ctrl-C stops %s.

`, redis, d.route, d.token, admin, d.replicas[0].Pool(d.pools[0]).Snapshot()[0].ID, admin, stops)
	return nil
}

// near is where programs on this machine reach a listener, also one in a container whose port is published.
func near(addr net.Addr) string {
	if at, ok := addr.(*net.TCPAddr); ok && at.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", at.Port)
	}
	return addr.String()
}

// redisURL is the URL of the embedded Redis for local programs.
func (d *demo) redisURL() string {
	return fmt.Sprintf("redis://:%s@%s/0", d.Stores.Embedded.Password, d.RedisAddr)
}

// welcomeSimulated says what is simulated, what happens next, and what is stopped at the end.
func (d *demo) welcomeSimulated() (head, next, stops string) {
	head = fmt.Sprintf("%d replicas, draft pool 2 x a10g-8b, target pool 1 x h100-70b-tp4 (simulated, %gx speed)\n", d.Replicas, d.TimeScale)
	return head, fmt.Sprintf(`The models are simulated: their sentences are plausible and answer nothing. Of all drafts of this traffic the target would refuse about a tenth.
The route is in its warm-up: drafts above a cautious threshold (the eighth with the best scores at first, later the best third) are served,
marked phase=warmup, and audited. The target answers the others. Usually a threshold is certified within five minutes. From then
on a guarantee holds: of the drafts that are served, the target would refuse at most 10 in 100. The last line shows the
progress, and so does

  bin/foregate risk show --admin http://%s
`, near(d.replicas[0].AdminAddr())), "everything"
}

// welcomePair has drafts made even where they do not pay, and says what runs and which modes the engines allow.
func (d *demo) welcomePair(ctx context.Context) (head, next, stops string, err error) {
	err = d.Stores.Control.HSet(ctx, "foregate:settings", "speculation.verify_rule@"+d.route, "lenient", "economy.guard@"+d.route, "off").Err()
	if err != nil {
		return "", "", "", fmt.Errorf("settings cannot be changed: %w", err)
	}
	head = fmt.Sprintf("replicas in front of your engines: %d\n\n  draft      %s  %s  (%s)\n  target     %s  %s  (%s)\n\nModes that the engines allow (foregate status says what each can do); risk is set:\n\n", d.Replicas,
		d.Pair.Draft.URL, d.Pair.Draft.Model, d.kind(0), d.Pair.Target.URL, d.Pair.Target.Model, d.kind(1))
	for _, mode := range []string{"risk", "verify", "confidence"} {
		head += fmt.Sprintf("  %-12s %s\n", mode, d.allows(mode))
	}
	redis := ""
	if d.RedisAddr != nil {
		redis = " --redis " + d.redisURL()
	}
	return head, fmt.Sprintf(`X-Tier says which engine answered, X-Acceptance why. To see more drafts served, without a guarantee:

  bin/foregate settings set%s --because 'more drafts' speculation.mode@%s=confidence speculation.threshold_nats@%s=-0.5

Dollars are made up: the draft costs $%g an hour and the target $%g
(--draft-usd-per-hour, --target-usd-per-hour). economy.guard is off, so that drafts are made even where they do not pay.
The last line says what happens.
`, redis, d.route, d.route, d.Pair.Draft.USDPerHour, d.Pair.Target.USDPerHour), "the gateway; your engines go on running", nil
}

// allows says whether the engines of the pair allow a mode, and why they do not.
func (d *demo) allows(mode string) string {
	drafts := d.replicas[0].Status().Drafts
	if len(drafts) != 1 || !d.replicas[0].EnginesKnown() {
		return "not known yet"
	}
	for _, u := range drafts[0].UnavailableModes {
		if u.Name == mode {
			return "not available: " + u.Reason
		}
	}
	return "works"
}

// kind is the kind of engine of a pool, as the gateway has found it.
func (d *demo) kind(pool int) string {
	for _, b := range d.replicas[0].Pool(d.pools[pool]).Snapshot() {
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
