/** What is said of the parameters of routes and of the fields of bodies. */
import { DIMENSIONS } from '../../store/usage-store.ts'

const DIMENSION = `(${DIMENSIONS.join('|')})`
/** ms since 1970, a span such as `7d`, or a date with or without a time. */
const TIME = String.raw`^(\d{10,15}|0|\d{1,10}(ms|s|m|h|d|w)|\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?)?)$`

/** The values that some parameters take, as JSON Schema. Their routes check them, and refuse others with a sentence. */
export const VALUES: Readonly<Record<string, object>> = {
  step: { enum: ['day', 'hour'] },
  by: { pattern: `^${DIMENSION}(,${DIMENSION})?$` },
  since: { pattern: TIME },
  until: { pattern: TIME },
}

/** What the parameters of routes mean, by their names, which are the same everywhere. */
export const PARAMETERS: Readonly<Record<string, string>> = {
  id: 'Its id. Keys, teams and requests are found by a part of it, too, and keys, teams, tokens and people by their name.',
  slug: 'A slug with its slash escaped, or an alias.',
  number: 'Of a state of the catalogue, from 1 on.',
  name: 'Of a backup, as lists have it.',
  upstream_model: 'What the upstream calls it, with slashes escaped.',
  plan: 'True: nothing is changed, and what would be is told.',
  since: 'From when on: ms since 1970, `7d` or `12h` (ago), or a date such as 2027-01-31.',
  until: 'Before when, as `since`.',
  'if-match':
    'The `revision` of the state that the edit was made from, in quotes. The edit is refused if the state has changed since; without it, the edit is always made.',
  limit: 'Rows at most.',
  figures:
    'What is told of each group. `spend`: requests and cost, and nothing of the rest, which takes most of the time of a report with many groups.',
  before: '`next` of the page before.',
  by: 'One or two of key, team, model, upstream, endpoint, user, day and hour, with a comma between.',
  step: 'The time that a row is of: day or hour.',
  key: 'By id, a part of it, or name. Reports of usage take several: repeat it.',
  team: 'By id, a part of it, or name. Reports of usage take several: repeat it.',
  model: 'A slug, an alias, or a pattern such as `openai/*`. Reports of usage take several: repeat it.',
  upstream: 'Its id; of requests, the one that was asked last. Reports of usage take several: repeat it.',
  endpoint: 'Such as `chat`.',
  user: 'As its client named it. Reports of usage take several: repeat it.',
  status: 'One of ok, failed, cut, abandoned and open; several with commas, or repeated.',
  error_code: 'Such as `upstream_timeout`.',
  errors: 'Those alone that did not end well.',
  actor: 'Who: `cli`, `server`, or the id or the name of somebody who may sign in.',
  action: 'Such as `keys.edit`, or `keys` for all of that group.',
  subject: 'What was changed: a name or an id.',
}

/** What the fields of bodies mean, likewise. */
export const FIELDS: Readonly<Record<string, string>> = {
  name: 'What it is called: of those in force, no two are called the same. Of people, what they sign in with.',
  password: 'The one to sign in with from now on, or at this door.',
  response: "What an authenticator has said, as `toJSON()` of a browser's `PublicKeyCredential` has it.",
  old: 'The password until now.',
  code: 'Good for one use.',
  role: 'What they may do.',
  disabled: 'True ends their sessions and revokes keys of their own.',
  scope: '`local`: only upstreams that cost no money. Of a token: whether it reads, or writes, too.',
  models: 'Patterns over slugs such as `openai/*`; none: every model of the scope.',
  rpm: 'Requests a minute; null: any number.',
  tpm: 'Tokens a minute; null: any number.',
  concurrency: 'Requests under way at a time; null: any number.',
  budget_nano_usd: 'What it may cost in each period, in nano-dollars; null: no budget. Given together with the period.',
  budget_period: 'When the budget begins anew (UTC); `total`: never.',
  metadata: 'Notes by name; null for one takes it away, null for all of them all.',
  allowed_ips: 'Addresses and ranges that it may be used from; none: from everywhere.',
  team: 'By id, a part of it, or name; null: none.',
  expires_ms: 'When it ends, ms since 1970; null: never.',
  max_keys: 'How many keys each member may have; null: any number.',
  overlap: 'How long the secret before works on, such as `24h`, `7d` or `0`; a day where nothing is said.',
  yaml: "The text of a catalogue's file; this, or `document`.",
  document: 'The same as an object.',
  prune: 'Whether what it no longer declares is deleted.',
  take_over: 'Whether it wins over what an administrator has changed by hand.',
  number: 'Of the state.',
  plan: 'True: nothing is changed, and what would be is told.',
  id: 'What it is to be called in routes.',
  dialect: 'What it speaks; left out where a preset says it.',
  preset: 'A provider of `GET /presets`, whose settings hold where nothing else is said; null: none.',
  base_url: 'Where it is, such as `https://api.openai.com/v1`; null: where its preset says.',
  api_key: 'The credential itself, or a list of several; null: none.',
  local: 'Whether it costs no money.',
  enabled: 'False: nobody is sent there.',
  limits: 'What its provider allows, all keys together; null for one: no limit.',
  deadlines: 'How long it may take, in ms; null for one: as by default.',
  pricing:
    'Prices in USD as decimals, such as `{"prompt":"0.000001","completion":"0.000002"}`. Of a route, null: as its model.',
  supported_features: 'Such as `tools`. Of a route, null: as its model.',
  context_length: 'Tokens that prompt and answer have together. Of a route, null: as its model.',
  max_output_length: 'Tokens that an answer has at most. Of a route, null: as its model.',
  listed: 'Whether lists of models have it.',
  priority: 'Lower ones are tried first.',
  thinking: 'How its model thinks there: by an effort, by a number of tokens, or not; null: as is known of it.',
  efforts: 'The efforts that it knows.',
  thinking_off: 'Whether it can be told not to think.',
  thinking_unasked: 'Whether it thinks where nobody asks it to.',
  sampling: 'Whether it takes `temperature`, `top_p` and `top_k`.',
  weight: 'Its part among those of the same priority.',
}
