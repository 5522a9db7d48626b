-- What risk.State does, on a hash. It begins every script that changes one.
-- KEYS 1 the hash, 2 the index of all, 3 the log
-- ARGV 1 the key's name, 2 eps, 3 delta, 4 audits of a lease, 5 audits between false alarms; then the script's own
local key=KEYS[1]
local eps,delta,lease,run=tonumber(ARGV[2]),tonumber(ARGV[3]),tonumber(ARGV[4]),tonumber(ARGV[5])
local size,from,steps,wanted,mostopen,openfor=16,4,20,200,1024,900
local mostkeys,mostfields,most,mostturn,minoutcomes,maxoutcomes=1024,4096,9e15,1000000,30,1000000
local certified,infeasible,wrong=1,2,3 -- why a warm-up ended
local maxwarmupopen=256
local bets={0,.1,.25,.4,.55,.7,.85}
local upper={1.15,1.35,1.7,2.2,3,4.5,7}
local rhos={1.5,2,3}
local names={'version','alarm','grid','scores','eps','delta','op','drift','hopeless','cold','outcomes','warmup',
  'born','e1','n1','k1','o1','e2','n2','k2','o2'}
local t=redis.call('TIME')
local seconds=tonumber(t[1]); local micros=seconds*1000000+tonumber(t[2])
local s,was,extra -- the state, the fields as they were, a ticket's
local trouble=''

local function whole(n) return string.format('%.0f',n) end
local function wholes(list)
  local out={}
  for i,n in ipairs(list) do out[i]=whole(n) end
  return table.concat(out,' ')
end
-- A short text that is read back as the same number. Not every Lua knows 1e-05; all know 1.0e-05.
local function dotted(v)
  if string.find(v,'.',1,true) then return v end
  return (string.gsub(v,'e','.0e'))
end
local function text(n)
  local short=dotted(string.format('%.15g',n))
  if tonumber(short)==n then return short end
  return dotted(string.format('%.17g',n))
end
local function texts(list)
  local out={}
  for i,n in ipairs(list) do out[i]=text(n) end
  return table.concat(out,' ')
end
-- A count is digits alone; nil is none.
local function count(v)
  if not v or not string.find(v,'^%d+$') then return nil end
  local n=tonumber(v)
  if n>most then return nil end
  return n
end
local function list(v,longest,read)
  local out={}
  for word in string.gmatch(v or '','%S+') do
    local n=read(word)
    if not n or #out==longest then return nil end
    out[#out+1]=n
  end
  return out
end
-- So many counts exactly.
local function counts(v,n)
  if not v or string.find(v,'[^%d ]') then return nil end
  local out={}
  for word in string.gmatch(v,'%d+') do
    local c=tonumber(word)
    if c>most or #out==n then return nil end
    out[#out+1]=c
  end
  if #out~=n then return nil end
  return out
end
local function real(v)
  local n=tonumber(v or 'x')
  if not n or n~=n or n<-1e300 or n>1e300 then return nil end
  return n
end

local function log1p(x)
  local u=1+x
  if u==1 then return x end
  return math.log(u)*(x/(u-1))
end
local function logbet(n,k,r)
  local v=(n-k)*(log1p(-r)-log1p(-eps))
  if k==0 then return v end
  return v+k*math.log(r/eps)
end
local function logmean(terms)
  local top=-math.huge
  for _,v in ipairs(terms) do top=math.max(top,v) end
  if top==-math.huge then return top end
  local sum=0
  for _,v in ipairs(terms) do sum=sum+math.exp(v-top) end
  return top+math.log(sum/#terms)
end
local function loge(n,k)
  local terms={}
  for i,share in ipairs(bets) do terms[i]=logbet(n,k,share*eps) end
  return logmean(terms)
end
local function logupper(n,k)
  local terms={}
  for i,times in ipairs(upper) do terms[i]=logbet(n,k,math.min(times*eps,(1+eps)/2)) end
  return logmean(terms)
end

local function empty()
  return {version=0,alarm=0,grid={},gridtext='',scores={},scorestext='',eps=0,epstext='0',delta=0,deltatext='0',
    op=0,drift={0,0,0},hopeless=0,cold=0,outcomes=0,warmup={0,0,0,0,0,0,0},born=0,epochs={}}
end
local function falling(grid)
  for i=2,#grid do if grid[i]>=grid[i-1] then return false end end
  return true
end
local function epochof(i)
  if (was['e'..i] or '')=='' then return false end
  local head=counts(was['e'..i],4)
  if not head or head[1]<1 or head[4]<1 then return nil end
  local e={id=head[1],audits=head[2],cert=head[3],turn=head[4]}
  for _,kind in ipairs({'n','k','o'}) do
    e[kind]=counts(was[kind..i],size)
    if not e[kind] then return nil end
  end
  for j=1,size do
    if e.o[j]>e.k[j] or e.k[j]>e.n[j] then return nil end
  end
  return e
end
-- The state by its fields; nil where these are not what was written.
local function read()
  local r=empty()
  for _,name in ipairs({'version','alarm','op','hopeless','cold','outcomes','born'}) do
    r[name]=count(was[name] or '0')
    if not r[name] then return nil end
  end
  r.gridtext,r.scorestext=was.grid or '',was.scores or ''
  r.epstext,r.deltatext=was.eps or '0',was.delta or '0'
  r.grid,r.scores=list(r.gridtext,size,real),list(r.scorestext,wanted-1,real)
  r.eps,r.delta=real(r.epstext),real(r.deltatext)
  r.drift=list(was.drift or '0 0 0',3,real)
  r.warmup=counts(was.warmup or '0 0 0 0 0 0 0',7)
  if not (r.grid and r.scores and r.eps and r.delta and r.drift and r.warmup) then return nil end
  local w=r.warmup
  if w[6]>w[5] or w[5]>w[4] or w[7]>wrong then return nil end
  if (r.version>0)~=(#r.grid>0) or (r.version>0 and #r.scores>0) or not falling(r.grid) then return nil end
  if #r.drift~=3 or r.hopeless>1 then return nil end
  local certified=0
  for i=1,2 do
    local e=epochof(i)
    if e==nil then return nil end
    if e then
      if #r.epochs~=i-1 or e.id>r.born or e.cert>#r.grid or (i==2 and r.epochs[1].id>=e.id) then return nil end
      r.epochs[i]=e
      certified=math.max(certified,e.cert)
    end
  end
  if r.op>certified or (#r.epochs>0 and r.version==0) then return nil end
  return r
end
-- Reads the hash and a ticket. What is not ours is nothing, and is written over.
local function load(ticket)
  local want={}
  for i,name in ipairs(names) do want[i]=name end
  want[#want+1]='t:'..ticket
  local v=redis.call('HMGET',key,unpack(want))
  was={}
  local present=0
  for i,name in ipairs(names) do
    was[name]=v[i]
    if v[i] then present=present+1 end
  end
  s=read()
  if not s then
    s=empty()
    s.afresh=true
    trouble='its fields were not ours: begun anew'
    return nil,present
  end
  return v[#v],present
end
-- Marks the key as in use; false where there are as many as there may be.
local function touch()
  local at=tonumber(redis.call('ZSCORE',KEYS[2],ARGV[1]) or 'none')
  if not at and redis.call('ZCARD',KEYS[2])>=mostkeys then return false end
  if not at or math.abs(seconds-at)>=60 then redis.call('ZADD',KEYS[2],whole(seconds),ARGV[1]) end
  return true
end
local function save()
  local new={version=whole(s.version),alarm=whole(s.alarm),grid=s.gridtext or texts(s.grid),
    scores=s.scorestext or texts(s.scores),eps=s.epstext,delta=s.deltatext,op=whole(s.op),drift=texts(s.drift),
    hopeless=whole(s.hopeless),cold=whole(s.cold),outcomes=whole(s.outcomes),warmup=wholes(s.warmup),born=whole(s.born)}
  for i=1,2 do
    local e=s.epochs[i]
    new['e'..i]=e and whole(e.id)..' '..whole(e.audits)..' '..whole(e.cert)..' '..whole(e.turn) or ''
    for _,kind in ipairs({'n','k','o'}) do new[kind..i]=e and table.concat(e[kind],' ') or '' end
  end
  local out={}
  for _,name in ipairs(names) do
    if s.afresh or new[name]~=was[name] then out[#out+1]=name; out[#out+1]=new[name] end
  end
  if extra then out[#out+1]=extra[1]; out[#out+1]=extra[2] end
  if s.afresh then
    redis.call('ZADD',KEYS[2],whole(seconds),ARGV[1]) -- where memory is short this is refused, and nothing is lost
    redis.call('DEL',key)
  end
  if #out>0 then redis.call('HSET',key,unpack(out)) end
  return new
end
-- Notes something in the log; without the log audits go on.
local function note(...)
  local r=redis.pcall('XADD',KEYS[3],'MAXLEN','~','40000','*',...)
  if type(r)=='table' and r.err then trouble='the log: '..r.err end
end
local function reply(what,new)
  return {what,trouble,new.version,new.alarm,new.grid,new.scores,new.eps,new.delta,new.op,new.drift,new.hopeless,new.warmup}
end
local function unknown(what,wrong) -- a reply where nothing is known
  return {what,wrong,'0','0','','','0','0','0','0 0 0','0','0 0 0 0 0 0 0'}
end
local toomany='too many kinds of request'
-- risk.Warmup: began, drafts, served, audits, bad, open, ended. It ends once.
local function ended(why)
  if s.warmup[7]==0 then s.warmup[7]=why end
end

local function epoch()
  s.born=s.born+1
  s.cold=math.min(s.cold+1,mostturn)
  local e={id=s.born,audits=0,cert=0,turn=s.cold,n={},k={},o={}}
  for j=1,size do e.n[j]=0; e.k[j]=0; e.o[j]=0 end
  s.epochs[#s.epochs+1]=e
end
local function renew()
  s.epochs={}
  epoch()
  s.op=0
end
local function operate()
  s.op=0
  for _,e in ipairs(s.epochs) do s.op=math.max(s.op,e.cert) end
  if s.op>0 then
    s.hopeless,s.cold=0,0
    for _,e in ipairs(s.epochs) do
      if e.cert>0 then s.cold=0 else s.cold=s.cold+1; e.turn=s.cold end
    end
    ended(certified)
  end
end
local function certify()
  for _,e in ipairs(s.epochs) do
    local need=math.log(size/(delta/(2*e.turn*e.turn)))
    for j=#s.grid,e.cert+1,-1 do
      if e.k[j]<eps*e.n[j] and loge(e.n[j],e.k[j])>=need then e.cert=j; break end
    end
  end
  operate()
end
local function hopeless()
  if s.op>0 or s.outcomes<minoutcomes then return end
  for _,e in ipairs(s.epochs) do
    if logupper(e.n[1],e.k[1]-e.o[1])>=math.log(2/delta) then
      s.hopeless=1
      ended(infeasible)
      renew()
      return
    end
  end
end
local function begin()
  if s.version~=0 and #s.epochs==0 then renew() end
  if s.eps==eps and s.delta==delta then return end
  s.eps,s.delta,s.epstext,s.deltatext,s.drift,s.hopeless,s.outcomes=eps,delta,ARGV[2],ARGV[3],{0,0,0},0,0
  for _,e in ipairs(s.epochs) do e.cert=0 end
  certify()
end
-- Audits under way, once those that were lost are forgotten, and whatever else is in the hash; nil where that was too much.
local function underway(ticket,known,present)
  local n=redis.call('HLEN',key)-present
  if n<mostopen/2 then return n,known end
  if n>mostfields then
    s=empty()
    s.afresh=true
    trouble='it had '..n..' fields: begun anew'
    return nil,known
  end
  local ours={}
  for _,name in ipairs(names) do ours[name]=true end
  local lost,flat={},redis.call('HGETALL',key)
  for i=1,#flat,2 do
    local name=flat[i]
    if not ours[name] then
      local born=count(string.match(flat[i+1],'^%d+ %d+ [012] (%d+)'))
      if string.sub(name,1,2)~='t:' or not born or seconds-born>openfor then
        lost[#lost+1]=name
        if name=='t:'..ticket then known=false end
      end
    end
  end
  for i=1,#lost,512 do redis.call('HDEL',key,unpack(lost,i,math.min(i+511,#lost))) end
  return n-#lost,known
end
