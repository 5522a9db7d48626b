-- Books an audit as bad before anybody knows its outcome: risk.State.Open.
-- ARGV 6 ticket, 7 version of the grid, 8 of the evidence, 9 last index audited, 10 score, 11 threshold, 12 floor,
--   13 features, 14 tokens, 15 the request's id, '' none, 16 the chance with which it was drawn
-- -> {fate, what was wrong, then the fields of a view}
local ticket,score=ARGV[6],tonumber(ARGV[10]) or 0/0
local known,present=load(ticket)
if not touch() then
  s=empty() -- one kind too many: nothing is known of it, and nothing is written
  return unknown('full',toomany)
end
begin()

local function rotate()
  local living={}
  for _,e in ipairs(s.epochs) do if e.audits<lease then living[#living+1]=e end end
  s.epochs=living
  if #living==0 or (#living<2 and living[#living].audits>=math.floor(lease/2)) then epoch() end
  operate()
end
local function learn()
  s.scores[#s.scores+1]=score
  s.scorestext=nil
  if #s.scores<wanted then return end
  table.sort(s.scores,function(a,b) return a>b end)
  s.grid,s.gridtext={},nil
  for j=1,size do
    local lambda=s.scores[math.max(math.floor((j+from-1)*#s.scores/steps)-1,0)+1]
    if s.grid[#s.grid]~=lambda then s.grid[#s.grid+1]=lambda end
  end
  s.scores,s.version={},micros
  renew()
end
local fate
local first=#s.grid+1
for j=#s.grid,1,-1 do if score>=s.grid[j] then first=j end end
local hi=math.min(tonumber(ARGV[9]),#s.grid)
if score~=score or score==math.huge or score==-math.huge then fate='outside'
elseif tonumber(ARGV[7])~=s.version or tonumber(ARGV[8])~=s.alarm then fate='stale'
elseif s.version==0 then
  learn()
  fate='learned'
elseif first>hi and (tonumber(ARGV[12]) or 0)>-1e9 then fate='outside'
else
  local n
  n,known=underway(ticket,known,present)
  if not n then fate='stale'
  elseif known or n>=mostopen then fate='full'
  else
    fate='booked'
    local served,ids=0,''
    if score>=tonumber(ARGV[11]) then served=1 end
    for _,e in ipairs(s.epochs) do
      e.audits=e.audits+1
      ids=ids..' '..whole(e.id)
      for j=first,hi do e.n[j]=e.n[j]+1; e.k[j]=e.k[j]+1; e.o[j]=e.o[j]+1 end
    end
    extra={'t:'..ticket,first..' '..hi..' '..served..' '..whole(seconds)..ids}
    rotate()
  end
end
local new=save()
if fate=='booked' then
  note('opened',ticket,'key',ARGV[1],'score',ARGV[10],'floor',ARGV[12],'threshold',ARGV[11],'served',extra[2]:match('^%d+ %d+ (%d)'),
    'features',ARGV[13],'tokens',ARGV[14],'version',ARGV[7],'alarm',ARGV[8],'request',ARGV[15],'chance',ARGV[16])
end
return reply(fate,new)
