-- KEYS: as of put. ARGV: conversation, response. With a response it answers the sealed response, else all fields of the conversation's
-- items. An empty answer says that there is none.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return {}
end
if ARGV[2] == '' then
  return redis.call('HGETALL', KEYS[3])
end
local whole = redis.call('HGET', KEYS[4], ARGV[2])
if not whole then
  return {}
end
return { whole }
