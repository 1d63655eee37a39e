/**
 * What `doctor` says of the running server, of upstreams, models and the file of the catalog, and of prices: what cannot be used now, and why.
 */

import { isApplied, toDigest } from '../../catalog/apply.ts'
import { loadSource } from '../../catalog/source.ts'
import { hasProxy, toFetchPlaces } from '../../config.ts'
import { type Check, ok, problem, toFew, warning } from '../../documents/checks.ts'
import { toKnown, toReasons } from '../../documents/model.ts'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { ServiceError } from '../../domain/service-error.ts'
import type { Environment, Snapshot, Upstream } from '../../domain/snapshot.ts'
import { count } from '../../domain/text.ts'
import { DAY_MS, dayOf, toAgo } from '../../domain/time.ts'
import { checkServer as checkOwn } from '../../server/findings.ts'
import type { Settings } from '../../store/config-store.ts'
import type { UsageReader } from '../../store/report-store.ts'
import type { VaultState } from '../../store/vault.ts'
import type { ServerLookup } from '../control-client.ts'
import { type Context, version } from '../io.ts'
import { toCatalogFile } from '../serve/serve.ts'
import { toBreakers, toServerNote, toTrouble, toUnusedCredentials } from '../upstreams/text.ts'

/** Looks at the server itself. `own` is the version of this binary. */
export function checkServer(found: ServerLookup, dataFolder: string, own: string, nowMs: number): Check[] {
  if (found.kind === 'none')
    return [warning('server', `No server runs on this data folder. Start it with: tollgate serve --data ${dataFolder}`)]
  if (found.kind === 'silent')
    return [
      found.holdsLock
        ? ok('server', 'A server holds serve.lock.')
        : warning('server', 'This user may not see whether a server runs.'),
      problem('control_socket', `The server cannot be asked how it is: ${found.why}.`),
    ]
  const { status } = found
  return [
    ok('server', `Process ${status.pid} serves ${status.url}, started ${toAgo(status.started_ms, nowMs)}.`),
    ok('control_socket', 'It answers.'),
    status.version === own
      ? ok('version', `${own}, as this program.`)
      : warning(
          'version',
          `The server is version ${status.version} and this program is ${own}. Restart the server to have one of them.`,
        ),
    ...checkOwn(status),
  ]
}

/**
 * Looks at those that were typed in. A server that has opened them goes on without what it has opened them with; the next does not.
 * @param isServer whether the running server says so, and not this process, whose environment may lack what that has.
 */
export function checkCredentials(
  { where, sealed_by: by, credentials, problems }: VaultState,
  isServer: boolean,
): Check[] {
  if (credentials === 0) return []
  const name = 'credentials'
  const all = `${count(credentials, 'credential')} typed in`
  if (problems.length === 0) {
    const keep = where.startsWith('the file')
      ? ' Keep a copy: tollgate backup FILE --with-secret'
      : ' Keep a copy of it.'
    return [ok(name, `${all}, which ${where} opens${isServer ? ', as the running server has it' : ''}.${keep}`)]
  }
  const told = problems.map(
    ({ upstream, problem: why }) =>
      `Of the upstream ${upstream}${isServer ? ', before the running server' : ''}: ${why}.`,
  )
  if (isServer || by !== null) return told.map((message) => problem(name, message))
  return [
    warning(
      name,
      `${all}, which nothing here opens: neither ${where} nor TOLLGATE_SECRET is there. Where a server has that variable in an environment of its own, ask again while it runs; else put the file back, or type them in again.`,
    ),
  ]
}

/** Looks at every upstream that is enabled. */
export function checkUpstreams(rows: readonly ShownUpstream[], serves: boolean, nowMs: number): Check[] {
  return rows.filter(({ enabled }) => enabled).map((row) => checkUpstream(row, serves, nowMs))
}

function checkUpstream(row: ShownUpstream, serves: boolean, nowMs: number): Check {
  const name = `upstream ${row.id}`
  const trouble = toTrouble(row, nowMs)
  const bad = BAD[row.state]
  const where = row.state === 'down' && row.base_url !== null ? ` Its address is ${row.base_url}.` : ''
  if (bad !== undefined) return warning(name, `${bad}: ${trouble ?? 'no reason is known'}.${where}`)
  if (row.process !== null && row.process.reason !== null) return warning(name, `${capital(toServerNote(row) ?? '')}.`)
  const unused = toUnusedCredentials(row)
  if (unused.length > 0) return warning(name, `It is asked, but its ${unused.join('; its ')}.`)
  if (row.targets.some(({ breaker }) => breaker !== 'closed'))
    return warning(name, `Breakers: ${toBreakers(row)}. Last error: ${trouble ?? 'none'}.`)
  const penalties = row.targets.flatMap(({ model, reason }) => (reason === null ? [] : [`${model}: ${reason}`]))
  if (penalties.length > 0) return warning(name, `Called only after others: ${penalties.join('; ')}.`)
  if (!serves && row.reason !== null) return warning(name, `Not ready here: ${row.reason}.`)
  if (!serves) return ok(name, 'Set up; only a running server knows how it is.')
  const state = row.state === 'healthy' ? 'Healthy' : 'Not probed yet'
  return ok(name, trouble === null ? `${state}.` : `${state}. Last trouble: ${trouble}.`)
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

/** What is wrong with an upstream, by its state. */
const BAD: Partial<Record<ShownUpstream['state'], string>> = {
  down: 'Down',
  refused: 'Refuses its credential or account',
  degraded: 'Degraded, and called after others',
  not_ready: 'Not ready',
}

/** Says what goes by `fetch`, by this environment: that may be less than one expects. */
export function checkTransport(upstreams: readonly Upstream[], environment: Environment): Check[] {
  if (hasProxy(environment)) return [ok('transport', 'There is a proxy: upstreams are reached through it, by `fetch`.')]
  const names = upstreams.filter(({ options }) => options.transport === 'fetch').map(({ id }) => id)
  if (names.length === 0) return []
  return [
    ok(
      'transport',
      `By \`fetch\`, and together with ${toFetchPlaces(environment)} calls at a time at most: ${toFew(names)}.`,
    ),
  ]
}

/** Looks at every model that may be asked for. Models that share their reasons share a line. */
export function checkModels({ models }: Snapshot, rows: readonly ShownUpstream[], serves: boolean): Check[] {
  if (models.size === 0)
    return [warning('models', 'There are no models. Declare them in a catalogue, then: tollgate catalog apply FILE')]
  const known = toKnown(rows, serves)
  const why = new Map<string, string[]>()
  let ready = 0
  for (const model of models.values()) {
    const reasons = toReasons(model, known)
    if (reasons === null) ready += 1
    else why.set(reasons, [...(why.get(reasons) ?? []), model.facts.id])
  }
  const checks = [...why].map(([reason, slugs]) => warning('models', `${toFew(slugs)}: ${reason}.`))
  if (ready > 0) return [ok('models', `${ready} of ${count(models.size, 'model')} can be asked.`), ...checks]
  const none = 'No model can be asked'
  return [serves ? problem('models', `${none}.`) : warning('models', `${none} with this environment.`), ...checks]
}

/** Looks where a server of this folder and this environment looks; whether one was told of another file nobody knows here. */
export async function checkCatalogFile(settings: Settings, io: Context): Promise<Check[]> {
  const { dataFolder, cwd, environment } = io
  const name = 'catalog_file'
  try {
    const source = await loadSource({ file: toCatalogFile(undefined, io), dataFolder, cwd })
    const { path } = source
    if (path === null) return []
    if (isApplied(settings, toDigest(source, version()))) return [ok(name, `${path} is what was applied last.`)]
    // As at a start: one that is applied already needs no reader of YAML.
    const { parseSource } = await import('../../catalog/file.ts')
    await parseSource({ ...source, name: path }, environment)
    const plan = `tollgate catalog plan ${path}`
    return [ok(name, `${path} is valid, and not what was applied last. What it would change: ${plan}`)]
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return [warning(name, toFileTrouble(error))]
  }
}

const EFFECT = 'A server that runs goes on as it is, and none starts with it.'

function toFileTrouble({ failure, message }: ServiceError): string {
  if (failure.kind !== 'catalog_invalid') return `${message} ${EFFECT}`
  const { name, problems } = failure
  return `${name} has ${count(problems.length, 'problem')}. ${EFFECT} See them with: tollgate catalog validate ${name}`
}

const DAYS = 30

/** By the sums of whole days: those of the last so many, and of today. */
export async function checkPrices(reader: Pick<UsageReader, 'pages' | 'counts'>, nowMs: number): Promise<Check[]> {
  const at = reader.counts.indexOf('unpriced')
  const span = { fromMs: dayOf(nowMs) - (DAYS - 1) * DAY_MS, untilMs: dayOf(nowMs) + DAY_MS }
  const models = new Map<string, number>()
  for await (const cells of reader.pages({ from: 'days', span, by: ['model'], where: {} }))
    for (const { of, counts } of cells) {
      const unpriced = counts[at] ?? 0
      if (unpriced > 0) models.set(String(of[0]), (models.get(String(of[0])) ?? 0) + unpriced)
    }
  if (models.size === 0) return [ok('prices', `All that was counted in the last ${DAYS} days had a price.`)]
  const all = [...models.values()].reduce((sum, each) => sum + each, 0)
  const names = [...models].sort(([, a], [, b]) => b - a).map(([model]) => model)
  return [
    warning(
      'prices',
      `${count(all, 'request')} of the last ${DAYS} days may have cost something else than is on record, since something that was counted has no price (${toFew(names)}). \`tollgate requests list --model ${names[0]}\` marks them with +, \`tollgate requests show ID\` names what lacks one: add it to the model's pricing.`,
    ),
  ]
}
