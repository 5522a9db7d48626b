-- Books what happened in a warm-up: risk.State.Drafted, and with a ticket risk.State.OpenWarmup.
-- ARGV 6 ticket, '' none, 7 drafts, 8 of these served
-- -> {'booked', 'full' or, without a ticket, 'noted', what was wrong, then the fields of a view}
local ticket=ARGV[6]
local known,present=load(ticket)
if not touch() then
  s=empty()
  return unknown('full',toomany)
end
begin()
local w=s.warmup
local function drafted(drafts,served)
  if w[1]==0 then w[1]=micros end
  w[2],w[3]=math.min(w[2]+drafts,most),math.min(w[3]+served,most)
end
local fate='noted'
if ticket=='' then
  drafted(tonumber(ARGV[7]),tonumber(ARGV[8]))
else
  local n
  n,known=underway(ticket,known,present)
  w=s.warmup
  if not n or known or n>=mostopen then
    fate='full'
  elseif w[6]>=maxwarmupopen then
    ended(wrong)
    fate='full'
  else
    fate='booked'
    drafted(0,0)
    w[4],w[5],w[6]=w[4]+1,w[5]+1,w[6]+1
    extra={'t:'..ticket,'0 0 2 '..whole(seconds)}
  end
end
return reply(fate,save())
