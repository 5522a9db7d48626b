-- What replicas share of refits: who works on them, and how far each route is.
-- KEYS 1 the hash
-- ARGV 1 'lease', 2 who, 3 ms -> 1 it is theirs for so long, 0 it is another's
-- ARGV 1 'write', 2 field, 3 the record that was read, 4 the next one -> 1 done, 0 it is another by now
local key=KEYS[1]
if ARGV[1]=='write' then
  if (redis.call('HGET',key,ARGV[2]) or '')~=ARGV[3] then return 0 end
  redis.call('HSET',key,ARGV[2],ARGV[4])
  return 1
end
local t=redis.call('TIME')
local now=tonumber(t[1])*1000+math.floor(tonumber(t[2])/1000)
local holder,to=string.match(redis.call('HGET',key,'lease') or '','^(%S+) (%d+)$')
to=tonumber(to or 0)
if holder and holder~=ARGV[2] and to>now and to<=now+600000 then return 0 end -- one that lasts longer is foreign
redis.call('HSET',key,'lease',ARGV[2]..' '..string.format('%.0f',now+tonumber(ARGV[3])))
return 1
