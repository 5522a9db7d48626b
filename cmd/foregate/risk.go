package main

import (
	"time"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

type riskCmd struct {
	Show         riskShowCmd         `cmd:"" help:"Show the guarantee for drafts that are served unverified, and what audits found."`
	Applications riskApplicationsCmd `cmd:"" help:"Show where drafts agree: for each application the share of its drafts that the target stands by, and what serving them would save."`
	Export       riskExportCmd       `cmd:"" help:"Write the log of audits to the standard output as JSON lines."`
	Import       riskImportCmd       `cmd:"" help:"Take audits of such a file as evidence: those of a trial in advance, say."`
	Reset        riskResetCmd        `cmd:"" help:"Forget what audits have shown, so that it is learned anew."`
}

// evidenceClient is where an operator works on what audits have shown.
type evidenceClient struct {
	*settingsEditor
	book     *evidence.Store
	snapshot *settings.Snapshot
}

// openEvidence connects to the Redis in which the replicas keep it, and reads the settings.
func (f redisFlags) openEvidence(e *env) (*evidenceClient, error) {
	d, err := f.open(e.ctx)
	if err != nil {
		return nil, err
	}
	b := &evidenceClient{settingsEditor: d}
	if b.snapshot, err = d.Read(d.ctx); err != nil {
		d.close()
		return nil, err
	}
	b.book = evidence.New(evidence.Options{
		Redis: d.client, Rule: b.rule,
		Stale: func(route string) time.Duration { return b.snapshot.Route(route).Tiers.Risk.MaxStaleness },
	})
	return b, nil
}

// rule is what is promised of a route, by the settings as they were read.
func (e *evidenceClient) rule(route string) risk.Rule { return e.snapshot.Route(route).Tiers.Risk.Rule }
