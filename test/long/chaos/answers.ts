/**
 * Judges the responses that chaos clients got: they keep the contract and contain their own calls' words, errors have a
 * visible cause, and connections are lost only around kills and at the end.
 */
import { checkError, checkHeaders, checkStream, checkWhole, type Report } from '../../support/contract.ts'
import type { ErrorFields } from '../../support/contract-frames.ts'
import { ALIASES, type KeyName, LIMITS, slugsOf, toSlug } from './catalog.ts'
import { whyNotExplained } from './causes.ts'
import type { Outcome } from './client.ts'
import { complain, type Facts, mayAsk, stretchOf } from './facts.ts'
import { checkResponseText, RESPONSE_END } from './responses.ts'
import { whyNotOwnWords } from './words.ts'

/** `error`: from a status, or from the frame that ended a stream. */
export interface Held {
  outcome: Outcome
  /** Ledger id. */
  id: string
  report: (Report & { costNanoUsd: number | null }) | null
  error: ErrorFields | null
}

export interface Answers {
  held: Held[]
  complaints: string[]
}

export function judgeAnswers(facts: Facts): Answers {
  const { story } = facts
  const answers: Answers = { held: [], complaints: [] }
  for (const outcome of story.outcomes) {
    try {
      const held = judge(facts, outcome)
      if (held) answers.held.push(held)
    } catch (error) {
      const rule = error instanceof Error ? error.message : String(error)
      answers.complaints.push(complain(story, outcome, rule, outcome.text))
    }
  }
  return answers
}

/** Throws the failure. Null if the client received nothing. */
function judge(facts: Facts, outcome: Outcome): Held | null {
  const { plan, status, headers, text, end } = outcome
  if (end === 'left') return null
  if (end === 'lost' || isTorn(outcome)) {
    must(mayBeLost(facts, outcome), 'a connection is lost around a SIGKILL, or after the end of the server only')
    return null
  }
  const id = (headers.get('x-request-id') ?? '').replace(/^req_/, '')
  if (plan.path === '/v1/models') {
    judgeList(facts, outcome)
    return null
  }
  const found = status === 200 ? judgeAnswer(outcome) : { report: null, error: checkError(status, headers, text) }
  const held: Held = { outcome, id, ...found }
  mustBeRefused(facts, held)
  mustTellRates(held)
  const slug = toSlug(plan.model)
  if (held.report) whenWrong(whyNotOwnWords(facts, held, slug))
  if (held.error && !plan.refusal) whenWrong(whyNotExplained(facts, held, held.error))
  return held
}

function must(holds: boolean, rule: string): void {
  if (!holds) throw new Error(rule)
}

function whenWrong(why: string | null): void {
  if (why !== null) throw new Error(why)
}

/** Ended without an end marker: `fetch` considers it complete. */
const isTorn = ({ plan, status, text }: Outcome) => status === 200 && plan.stream && !END[plan.way].test(text)

const END = { chat: /data: (\[DONE\]|\{"error":[^\n]*)\n\n$/, responses: RESPONSE_END }

/** After the signal, the server may be closing connections. */
function mayBeLost({ story, isKilled }: Facts, outcome: Outcome): boolean {
  const { drain } = story
  return isKilled(stretchOf(outcome)) || (outcome.sentMs >= drain.fromMs && outcome.status === 0)
}

function judgeAnswer({ plan, headers, text }: Outcome): Pick<Held, 'report' | 'error'> {
  const asked = { includeUsage: plan.includeUsage, choices: plan.n, model: toSlug(plan.model), logprobs: false }
  checkHeaders(plan.stream ? 'stream' : 'whole', headers)
  if (plan.way === 'responses') {
    const { report, error } = checkResponseText(text, plan.stream)
    must(report.identity?.model === asked.model, `it is of ${asked.model}`)
    return { report: { ...report, costNanoUsd: error ? null : toReceipt(text) }, error }
  }
  if (!plan.stream) return { report: { ...checkWhole(text, asked), costNanoUsd: toReceipt(text) }, error: null }
  const { error, ...report } = checkStream(text, asked)
  return { report: { ...report, costNanoUsd: plan.includeUsage && !error ? toReceipt(text) : null }, error }
}

/** The cost as an integer and in dollars, which must match. */
function toReceipt(text: string): number {
  const [, nano = '', usd = ''] = /"cost_nano_usd":(\d+),"cost":([0-9.]+)[,}]/.exec(text) ?? []
  must(nano !== '', 'usage has cost_nano_usd and cost')
  must(Math.round(Number(usd) * 1e9) === Number(nano), 'cost and cost_nano_usd are the same amount')
  return Number(nano)
}

/** Checks the refusals of invalid requests, and access to models. */
function mustBeRefused(facts: Facts, { outcome, error }: Held): void {
  const { plan, status } = outcome
  const { refusal } = plan
  // A stopping server reports that first.
  if (error?.code === 'server_is_overloaded' && status === 503 && stretchOf(outcome).toMs >= facts.story.drain.fromMs)
    return
  if (refusal) {
    const said = { status, type: error?.type, code: error?.code, param: error?.param }
    const asked = { param: error?.param, ...refusal }
    must(Bun.deepEquals(said, asked), `the refusal ${JSON.stringify(refusal)}`)
    return
  }
  // A key at its limit gets that error first.
  if (error?.type === 'requests' && error.code === 'rate_limit_exceeded') return
  const seen = facts.versionsIn(stretchOf(outcome)).map((version) => mayAsk(version, plan.key, plan.model))
  const isFound = error?.code !== 'model_not_found'
  must(seen.includes(isFound), isFound ? 'a model that is not there for this key is a 404' : 'the model is there')
}

/** The list must match one catalog version and the key's models. */
function judgeList(facts: Facts, outcome: Outcome): void {
  const { plan, status, headers, text } = outcome
  must(status === 200, 'models are listed')
  checkHeaders('whole', headers)
  const { object, data } = JSON.parse(text) as { object: string; data: { id: string }[] }
  must(object === 'list', 'object is "list"')
  const ids = data.map(({ id }) => id)
  const versions = facts.versionsIn(stretchOf(outcome))
  const lists = versions.map((version) =>
    [...slugsOf(version), ...Object.keys(ALIASES)].filter((name) => mayAsk(version, plan.key, name)),
  )
  const wanted = lists.map((list) => list.sort())
  must(
    wanted.some((list) => Bun.deepEquals(list, ids)),
    `the list ${JSON.stringify(wanted)}`,
  )
}

/** Go durations, as clients parse them. */
const DURATION = /^(\d+m)?(\d+(\.\d+)?s|\d+ms)?$/

/** Rates of keys, their own or their team's. */
const RATES: readonly [keys: readonly KeyName[], unit: string, limit: number][] = [
  [['rpm'], 'requests', LIMITS.rpm],
  [['squad1', 'squad2'], 'requests', LIMITS.squadRpm],
  [['tpm'], 'tokens', LIMITS.tpm],
]

/** Keys with a rate get its state with every response. */
function mustTellRates({ outcome, error }: Held): void {
  const { plan, status, headers } = outcome
  if (status !== 200 && error?.code !== 'rate_limit_exceeded') return
  for (const unit of ['requests', 'tokens']) {
    const limit = RATES.find(([keys, of]) => of === unit && (keys as readonly unknown[]).includes(plan.key))?.[2]
    const told = ['limit', 'remaining', 'reset'].map((name) => headers.get(`x-ratelimit-${name}-${unit}`))
    if (limit === undefined) {
      must(
        told.every((value) => value === null),
        `no x-ratelimit-*-${unit} for a key without such a limit`,
      )
      continue
    }
    const [most, left, reset] = told
    const isRight = most === String(limit) && /^\d+$/.test(left ?? '') && DURATION.test(reset ?? ' ')
    must(isRight && Number(left) <= limit, `x-ratelimit-*-${unit} of a limit of ${limit}, not ${told.join(', ')}`)
  }
}
