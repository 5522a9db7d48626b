-- Ends an audit: risk.State.Close. Of a key that does not exist nothing is under way.
-- ARGV 6 ticket, 7 '1' bad or '0' good
-- -> {'1' it was under way, '2' of what a warm-up served, or '0', what was wrong, then the fields of a view}
local ticket,bad=ARGV[6],ARGV[7]=='1'
local known,present=load(ticket)
if present==0 then return unknown('0','') end
if not touch() then trouble=toomany end
begin()

local function drifted()
  local top=0
  for i,rho in ipairs(rhos) do
    local r=math.min(rho*eps,.99)
    local step=math.log(r/eps)
    if not bad then step=log1p(-r)-log1p(-eps) end
    s.drift[i]=math.max(s.drift[i],0)+step
    top=math.max(top,s.drift[i])
  end
  return top/math.log(#rhos*run)>=1
end
-- A ticket as it was written, for epochs that can have counted it; nil is none.
local function parse()
  if not known then return nil end
  local n=list(known,6,count)
  if not n or #n<4 then return nil end
  if n[3]==2 then -- of a draft that the warm-up served
    if #n>4 or n[1]>0 or n[2]>0 or s.warmup[6]<1 then return nil end
    return {warmup=true}
  end
  if n[1]<1 or n[2]>#s.grid or n[1]>n[2]+1 or n[3]>1 then return nil end
  local of={}
  for i=5,#n do of[n[i]]=true end
  for _,e in ipairs(s.epochs) do
    if of[e.id] then for j=n[1],n[2] do if e.o[j]<1 then return nil end end end
  end
  return {first=n[1],hi=n[2],served=n[3]==1,of=of}
end

-- risk.State.closeWarmup
local function closewarmup()
  local w=s.warmup
  w[6]=w[6]-1
  if not bad then w[5]=w[5]-1 end
  if logupper(w[4],w[5]-w[6])>=math.log(1/delta) then ended(wrong) end
end

local b=parse()
if b and b.warmup then
  closewarmup()
elseif b then
  s.outcomes=math.min(s.outcomes+1,maxoutcomes)
  for _,e in ipairs(s.epochs) do
    if b.of[e.id] then
      for j=b.first,b.hi do
        e.o[j]=e.o[j]-1
        if not bad then e.k[j]=e.k[j]-1 end
      end
    end
  end
  if b.served and drifted() then
    s.alarm,s.drift,s.hopeless,s.cold,s.outcomes,s.afresh=s.alarm+1,{0,0,0},0,0,0,true -- all tickets go with the hash
    renew()
  else
    certify()
    hopeless()
  end
end
local new=save()
if known and not s.afresh then redis.call('HDEL',key,'t:'..ticket) end
if b and not b.warmup then note('closed',ticket,'key',ARGV[1],'bad',ARGV[7]) end
return reply(b and (b.warmup and '2' or '1') or '0',new)
