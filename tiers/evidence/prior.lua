-- Adds what past audits say to the oldest living epoch: risk.State.ApplyImport.
-- ARGV 6 version of the grid, 7 of the evidence that this was reckoned for, 8 the newest µs of what was added before, 9 and of this,
--   10 a grid where there is none, 11 audits of each index, 12 bad ones, 13 audits,
--   14 with a new grid: policies that were tried before
-- -> {'1' done or '0' the state is another by now, what was wrong, then the fields of a view}
load('')
if not touch() then return unknown('0',toomany) end
begin()
local n,k,audits=counts(ARGV[11],size),counts(ARGV[12],size),count(ARGV[13])
local done='0'
local placed=s.version~=0 or ARGV[10]~=""
if placed and tonumber(ARGV[6])==s.version and tonumber(ARGV[7])==s.alarm and tonumber(ARGV[8])==s.prior
  and (#s.epochs==0 or s.epochs[1].audits+audits<=lease) then
  done='1'
  if s.version==0 then
    s.grid,s.gridtext,s.scores,s.scorestext=list(ARGV[10],size,real),ARGV[10],{},''
    s.version,s.cold=micros,math.max(s.cold,math.min(tonumber(ARGV[14]),mostturn))
    renew()
  end
  local e=s.epochs[1]
  e.audits=math.max(e.audits,math.min(e.audits+audits,math.floor(lease/2)))
  for j=1,size do e.n[j]=e.n[j]+n[j]; e.k[j]=e.k[j]+k[j] end
  s.prior=tonumber(ARGV[9])
  s.outcomes=math.min(s.outcomes+audits,maxoutcomes)
  certify()
  hopeless()
end
return reply(done,save())
