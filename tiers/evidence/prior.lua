-- Makes past audits the first evidence of a key: risk.State.ApplyImport.
-- ARGV 6 its grid, 7 audits of each index, 8 bad ones, 9 audits, 10 policies that were tried before
-- -> {'1' done or '0' the key has evidence, what was wrong, then the fields of a view}
load('')
if not touch() then return unknown('0',toomany) end
begin()
local n,k,audits=counts(ARGV[7],size),counts(ARGV[8],size),count(ARGV[9])
local done='0'
if s.version==0 and s.alarm==0 and ARGV[6]~="" then
  done='1'
  s.grid,s.gridtext,s.scores,s.scorestext=list(ARGV[6],size,real),ARGV[6],{},''
  s.version,s.cold=micros,math.max(s.cold,math.min(tonumber(ARGV[10]),mostturn))
  renew()
  local e=s.epochs[1]
  e.audits=math.min(e.audits+audits,math.floor(lease/2))
  for j=1,size do e.n[j]=e.n[j]+n[j]; e.k[j]=e.k[j]+k[j] end
  s.outcomes=math.min(s.outcomes+audits,maxoutcomes)
  certify()
  hopeless()
end
return reply(done,save())
