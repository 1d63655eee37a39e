/** Keys in words, and which of them a list shows. Pure. */
import type { KeyDocument } from '../../documents/key.ts'
import { toCount } from '../figures/counts.ts'
import { toExactMoney, toMoney } from '../figures/money.ts'
import { hasWords } from '../figures/search.ts'

export type Budgeted = Pick<
  KeyDocument,
  'budget_nano_usd' | 'budget_period' | 'budget_state' | 'spent_nano_usd' | 'budget_reset_ms'
>

type Limited = Pick<KeyDocument, 'rpm' | 'tpm' | 'concurrency'>

/** Such as `60 requests, 100k tokens a minute; 4 at a time`; '' without any. */
export function toLimitsText({ rpm, tpm, concurrency }: Limited): string {
  const rates = [
    ...(rpm === null ? [] : [`${toCount(rpm)} requests`]),
    ...(tpm === null ? [] : [`${toCount(tpm)} tokens`]),
  ]
  return [
    ...(rates.length === 0 ? [] : [`${rates.join(', ')} a minute`]),
    ...(concurrency === null ? [] : [`${toCount(concurrency)} at a time`]),
  ].join('; ')
}

/** For a table: `60 rpm`, `60 rpm +2`. */
export function toShortLimits({ rpm, tpm, concurrency }: Limited): string {
  const limits = [
    ...(rpm === null ? [] : [`${toCount(rpm)} rpm`]),
    ...(tpm === null ? [] : [`${toCount(tpm)} tpm`]),
    ...(concurrency === null ? [] : [`${toCount(concurrency)} at a time`]),
  ]
  return withMore(limits)
}

/** For a table: `every model`, `openai/* +2`, `local models`. */
export const toShortModels = ({ models, scope }: Pick<KeyDocument, 'models' | 'scope'>): string =>
  models.length === 0 ? (scope === 'local' ? 'local models' : 'every model') : withMore(models)

const withMore = ([first = '', ...others]: readonly string[]) =>
  others.length === 0 ? first : `${first} +${others.length}`

/** Such as `$12.00 of $20.00 a month`. */
export function toBudgetText({
  budget_nano_usd: budget,
  budget_period: period,
  spent_nano_usd: spent,
}: Pick<Budgeted, 'budget_nano_usd' | 'budget_period' | 'spent_nano_usd'>): string {
  if (budget === null) return ''
  return `${toMoney(spent ?? 0)} of ${toMoney(budget)} ${PERIOD_WORDS[period ?? 'total']}`
}

export const PERIOD_WORDS = { day: 'a day', week: 'a week', month: 'a month', total: 'in all' } as const

export const BUDGET_KINDS = { ok: 'good', warning: 'warn', spent: 'bad' } as const

export const STATUS_KINDS = { active: 'good', expired: 'off', revoked: 'off' } as const

export interface KeyFilter {
  search: string
  team: string
  /** `active` by default; `all` for every one. */
  state: string
}

/** Those whose name, owner, team, models, id or last four characters have the words that are searched for. */
export function filterKeys(keys: readonly KeyDocument[], { search, team, state }: KeyFilter): KeyDocument[] {
  return keys.filter((key) => {
    if (state !== 'all' && key.status !== (state === '' ? 'active' : state)) return false
    if (team !== '' && key.team !== team) return false
    const { name, owner, id, models, secrets } = key
    const texts = [name, owner ?? '', key.team ?? '', id, ...models, ...secrets.map(({ last_four }) => last_four)]
    return hasWords(texts, search)
  })
}

/** What an administrator has set on a member's key, by the field of the form that it is for. */
export function toCeilingTexts(ceilings: Ceilings): Partial<Record<CeilingField, string>> {
  const {
    scope,
    models,
    rpm,
    tpm,
    concurrency,
    budget_nano_usd: nanoUsd,
    allowed_ips: ips,
    expires_ms: endMs,
  } = ceilings
  const period = ceilings.budget_period === 'total' ? 'total' : `per ${ceilings.budget_period}`
  const texts: Record<CeilingField, string | undefined> = {
    rpm: rpm === undefined ? undefined : `at most ${rpm} requests per minute`,
    tpm: tpm === undefined ? undefined : `at most ${tpm} tokens per minute`,
    concurrency: concurrency === undefined ? undefined : `at most ${concurrency} at a time`,
    budget: nanoUsd === undefined ? undefined : `at most ${toExactMoney(nanoUsd)} ${period}`,
    scope: scope && 'local upstreams only',
    models: models && `only ${models.join(', ')}`,
    allowed_ips: ips && `only from ${ips.join(', ')}`,
    expires_ms:
      endMs === undefined
        ? undefined
        : `expires by ${new Date(endMs).toISOString().slice(0, 16).replace('T', ' ')} UTC`,
  }
  return Object.fromEntries(
    Object.entries(texts).flatMap(([field, text]) => (text ? [[field, `Set by an administrator: ${text}.`]] : [])),
  )
}

type Ceilings = KeyDocument['ceilings']
type CeilingField = Exclude<keyof Ceilings, `budget_${string}`> | 'budget'
