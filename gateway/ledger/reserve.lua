-- Checks a tenant's limits and budgets and reserves, or tells what a replica has counted. All of a tenant is in one hash.
-- KEYS[1] field levels: time in µs, and the levels of requests, tokens and requests of priority high at that time; a field
-- per replica process, and folded for those that are gone: time in ms, version, and for hour, day and month the begin of the
-- window, settled tokens and nano-dollars, reserved tokens and nano-dollars
-- ARGV[1] numbers, without zeros at the end: 1 what (1 ask, 0 tell, -1 read), 2-7 per minute and slack of requests, tokens, high ones
-- (0: no limit), 8-10 requests, tokens, high ones to charge, 11 version (0: none), 12-13 tokens and nanos of the request, 14 expiry
-- in s, then of each window the begin in hours, most tokens and nanos (0: none), and the process' settled tokens and nanos, reserved
-- tokens and nanos, with those of the request
-- ARGV[2] the process' field
-- -> without zeros at the end: refused (0 no, 1 requests, 2 tokens, 3-8 tokens and nanos of each window), 1 when high is used up, levels
-- of requests and tokens in thousandths, for each window settled and reserved of the others; or ! and an error
local k,field,a=KEYS[1],ARGV[2],{}
for n in string.gmatch(ARGV[1],'%S+') do a[#a+1]=tonumber(n) end
for i=#a+1,35 do a[i]=0 end
local function numbers(s,n)
  local f={}
  for word in string.gmatch(s,'%S+') do
    local x=tonumber(word); f[#f+1]=x and x>=0 and x<=9e15 and x or 0
  end
  for i=#f+1,n do f[i]=0 end return f
end
local own={0,a[11]}
for w=15,29,7 do
  for _,x in ipairs({a[w]*3600,a[w+3],a[w+4],a[w+5],a[w+6]}) do own[#own+1]=x end
end
local t=redis.call('TIME'); local us=t[1]*1000000+t[2]; local now=math.floor(us/1000)
local v=redis.pcall('HGETALL',k); if v.err then return '!'..v.err end
local levels,mine,folded,oldest,oldestName=numbers('',4),nil,nil,nil,nil
local others,fields={0,0,0,0,0,0,0,0,0,0,0,0},#v/2
for i=1,#v,2 do
  local name,f=v[i],numbers(v[i+1],17)
  if name=='levels' then levels=f elseif name==field then mine=f else
    local age=now-f[1]
    for w=0,2 do
      if f[3+5*w]==own[3+5*w] then
        local last=age<30000 and name~='folded' and 4 or 2 -- a silent process' reservations do not count
        for j=1,last do others[4*w+j]=math.min(others[4*w+j]+f[3+5*w+j],9e15) end
      end
    end
    if name=='folded' then folded=f elseif age>3600000 and (not oldest or f[1]<oldest[1]) then oldest,oldestName=f,name end
  end
end
local minutes=math.max(0,(us-levels[1])/60000000)
local function add(n,more,cap) return math.max(0,math.min(n+more,2*cap)) end -- more than two minutes are never owed
local function owed(i,cap) return math.max(0,math.min(levels[i],2*cap)-minutes*cap) end
local r,tok,h=owed(2,a[2]),owed(3,a[4]),owed(4,a[6])
local newer=a[11]>0 and (not mine or a[11]>mine[2])
local have=not newer and mine or own
local refused,demoted=0,0
if a[1]==1 then
  local function wait(n,cap,slack) return cap>0 and (n-slack-0.000001)/cap or 0 end
  local wr,wt=wait(r,a[2],a[3]),wait(tok,a[4],a[5])
  if wr>0 or wt>0 then refused=wt>wr and 2 or 1 end
  for w=2,0,-1 do -- the longest wait is told
    local f=have[3+5*w]==own[3+5*w] and have or own
    for u=1,2 do
      local sum,ask,most=f[3+5*w+u]+f[5+5*w+u]+others[4*w+u]+others[4*w+u+2],a[11+u],a[15+7*w+u]
      if refused==0 and most>0 and (sum>most or sum-ask>=most) then refused=2+2*w+u end
    end
  end
  if refused==0 and a[10]>0 and a[6]>0 and h>a[7]+0.000001 then demoted,a[10]=1,0 end
end
local function text(f) for i=1,#f do f[i]=string.format('%.0f',f[i]) end return table.concat(f,' ') end
if a[1]>=0 then
  if refused>0 then a[8],a[9],a[10]=0,0,0 end
  r,tok,h=add(r,a[8],a[2]),add(tok,a[9],a[4]),add(h,a[10],a[6])
  local set,last={},math.max(levels[1]/1000,mine and mine[1] or 0)
  if a[2]+a[4]>0 then set={'levels',string.format('%.0f %.6f %.6f %.6f',us,r,tok,h)} end
  if newer and refused==0 then
    own[1]=now
    for _,x in ipairs({field,text(own)}) do set[#set+1]=x end
    if oldest and fields>64 then
      folded=folded or numbers('',17)
      for b=3,13,5 do
        if oldest[b]>folded[b] then folded[b],folded[b+1],folded[b+2]=oldest[b],0,0 end
        if oldest[b]==folded[b] then folded[b+1],folded[b+2]=folded[b+1]+oldest[b+1],folded[b+2]+oldest[b+2] end
      end
      for _,x in ipairs({'folded',text(folded)}) do set[#set+1]=x end
      redis.call('HDEL',k,oldestName)
    end
  end
  if #set>0 then redis.call('HSET',k,unpack(set)) end
  if math.floor(last/60000)~=math.floor(now/60000) then redis.call('PEXPIRE',k,1000*a[14]) end -- once a minute is enough
end
local reply={refused,demoted,math.floor(r*1000),math.floor(tok*1000),unpack(others)}
while #reply>1 and reply[#reply]==0 do reply[#reply]=nil end
return text(reply)
