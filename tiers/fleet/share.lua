-- Writes the readings that are newer than what is stored, and tells all of the hash.
-- KEYS[1] hash; ARGV 1 most fields, 2 'drop' or 'keep' a hash that has more; then triples: field, age in ms, the rest of the value
-- -> {now, error or '', {field, value, ...}}; of a longer field or value its first 2049 bytes, which is more than any has
local k=KEYS[1]
local t=redis.call('TIME'); local now=t[1]*1000+math.floor(t[2]/1000)
local n=redis.pcall('HLEN',k)
if type(n)=='table' then return {now,'HLEN: '..n.err,{}} end
if n>tonumber(ARGV[1]) then
  if ARGV[2]=='drop' then redis.call('UNLINK',k) end
  return {now,'more than '..ARGV[1]..' fields',{}}
end
local err=''
for i=3,#ARGV,3 do
  local seq=now-tonumber(ARGV[i+1])
  local had=redis.call('HGET',k,ARGV[i])
  local old=nil
  if had then old=string.match(had,'^%d+ (%d+) ') end
  if old then old=tonumber(old) end
  if not old or old<seq or old>now then
    local r=redis.pcall('HSET',k,ARGV[i],'3 '..string.format('%.0f',seq)..' '..ARGV[i+2])
    if type(r)=='table' and r.err then err='HSET: '..r.err; break end
  end
end
local all=redis.call('HGETALL',k)
for i=1,#all do
  if #all[i]>2049 then all[i]=string.sub(all[i],1,2049) end
end
return {now,err,all}
