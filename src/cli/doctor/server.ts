/** Checks of the running server, credentials, upstreams, models, catalog file, and prices. */

import { isApplied, toDigest } from '../../catalog/apply.ts'
import { loadSource } from '../../catalog/source.ts'
import { hasProxy, toFetchPlaces } from '../../config.ts'
import { type Check, ok, problem, toFew, warning } from '../../documents/checks.ts'
import { toKnown, toReasons } from '../../documents/model.ts'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { ServiceError } from '../../domain/service-error.ts'
import type { Environment, Snapshot, Upstream } from '../../domain/snapshot.ts'
import { capitalize, count } from '../../domain/text.ts'
import { DAY_MS, dayOf, toAgo } from '../../domain/time.ts'
import { isReady, UPSTREAM_STATES } from '../../domain/upstream-state.ts'
import { checkServer as checkOwn } from '../../server/findings.ts'
import type { Settings } from '../../store/config-store.ts'
import type { UsageReader } from '../../store/report-store.ts'
import type { VaultState } from '../../store/vault.ts'
import type { ServerLookup } from '../control-client.ts'
import { type Context, version } from '../io.ts'
import { toCatalogFile } from '../serve/serve.ts'
import { toBreakers, toServerNote, toTrouble, toUnusedCredentials } from '../upstreams/text.ts'

/** @param own this binary's version. */
export function checkServer(found: ServerLookup, dataFolder: string, own: string, nowMs: number): Check[] {
  if (found.kind === 'none')
    return [warning('server', `No server is running. Start it: tollgate serve --data ${dataFolder}`)]
  if (found.kind === 'silent')
    return [
      found.holdsLock
        ? ok('server', 'Running (holds serve.lock).')
        : warning('server', "This user can't see whether a server is running."),
      problem('control_socket', `Can't reach the server: ${found.why}.`),
    ]
  const { status } = found
  return [
    ok('server', `Running at ${status.url} (process ${status.pid}, started ${toAgo(status.started_ms, nowMs)}).`),
    ok('control_socket', 'Responding.'),
    status.version === own
      ? ok('version', `${own}, same as this command.`)
      : warning(
          'version',
          `The server is version ${status.version}, this command is ${own}. Restart the server with ${own}.`,
        ),
    ...checkOwn(status, nowMs),
  ]
}

/**
 * Checks that stored credentials can be decrypted. A running server works without the key once it has; the next one
 * won't.
 * @param isServer the state is from the running server, not from this process, whose environment may lack the key.
 */
export function checkCredentials(
  { where, sealed_by: by, credentials, problems }: VaultState,
  isServer: boolean,
): Check[] {
  if (credentials === 0) return []
  const name = 'credentials'
  const all = `${count(credentials, 'stored credential')}`
  if (problems.length === 0) {
    const keep = where.startsWith('the file') ? ' Back it up: tollgate backup FILE --with-secret' : ' Back it up.'
    return [ok(name, `${all}, encrypted with ${where}${isServer ? ' of the running server' : ''}.${keep}`)]
  }
  const told = problems.map(
    ({ upstream, problem: why }) => `Upstream ${upstream}${isServer ? ' on the running server' : ''}: ${why}.`,
  )
  if (isServer || by !== null) return told.map((message) => problem(name, message))
  return [
    warning(
      name,
      `${all} can't be decrypted here: neither ${where} nor TOLLGATE_SECRET is set. If a server has that variable, run this again while it is running; else restore the file, or enter the keys again: tollgate upstreams edit ID --key`,
    ),
  ]
}

export function checkUpstreams(rows: readonly ShownUpstream[], serves: boolean, nowMs: number): Check[] {
  return rows.filter(({ enabled }) => enabled).map((row) => checkUpstream(row, serves, nowMs))
}

function checkUpstream(row: ShownUpstream, serves: boolean, nowMs: number): Check {
  const name = `upstream ${row.id}`
  const trouble = toTrouble(row, nowMs)
  const bad = isReady(row) && row.state !== 'degraded' ? null : capitalize(UPSTREAM_STATES[row.state].word)
  const where = row.state === 'down' && row.base_url !== null ? ` URL: ${row.base_url}.` : ''
  if (bad !== null) return warning(name, `${bad}: ${trouble ?? 'no reason is known'}.${where}`)
  if (row.process !== null && row.process.reason !== null)
    return warning(name, `${capitalize(toServerNote(row) ?? '')}.`)
  const unused = toUnusedCredentials(row)
  if (unused.length > 0) return warning(name, `In use, but ${unused.join('; ')}.`)
  if (row.targets.some(({ breaker }) => breaker !== 'closed'))
    return warning(name, `Circuit breakers: ${toBreakers(row)}. Last error: ${trouble ?? 'none'}.`)
  const penalties = row.targets.flatMap(({ model, reason }) => (reason === null ? [] : [`${model}: ${reason}`]))
  if (penalties.length > 0) return warning(name, `Deprioritized: ${penalties.join('; ')}.`)
  if (!serves && row.reason !== null) return warning(name, `Not ready: ${row.reason}.`)
  if (!serves) return ok(name, 'Configured. Status unknown without a running server.')
  const state = row.state === 'healthy' ? 'Healthy' : 'Not checked yet'
  return ok(name, trouble === null ? `${state}.` : `${state}. Last error: ${trouble}.`)
}

/** Reports upstreams called with `fetch`, whose concurrency is limited. */
export function checkTransport(upstreams: readonly Upstream[], environment: Environment): Check[] {
  if (hasProxy(environment)) return [ok('transport', 'Upstreams are called through a proxy, with `fetch`.')]
  const names = upstreams.filter(({ options }) => options.transport === 'fetch').map(({ id }) => id)
  if (names.length === 0) return []
  return [
    ok(
      'transport',
      `Called with \`fetch\`, at most ${toFetchPlaces(environment)} concurrent calls together: ${toFew(names)}.`,
    ),
  ]
}

/** Models that are not ready share a line per reason. */
export function checkModels({ models }: Snapshot, rows: readonly ShownUpstream[], serves: boolean): Check[] {
  if (models.size === 0)
    return [
      warning(
        'models',
        'No models. Add a provider: tollgate upstreams add PROVIDER. Or apply a catalog: tollgate catalog apply FILE',
      ),
    ]
  const known = toKnown(rows, serves)
  const why = new Map<string, string[]>()
  let ready = 0
  for (const model of models.values()) {
    const reasons = toReasons(model, known)
    if (reasons === null) ready += 1
    else why.set(reasons, [...(why.get(reasons) ?? []), model.facts.id])
  }
  const checks = [...why].map(([reason, slugs]) => warning('models', `${toFew(slugs)}: ${reason}.`))
  if (ready > 0) return [ok('models', `${ready} of ${count(models.size, 'model')} ready.`), ...checks]
  const none = 'No model is ready'
  return [serves ? problem('models', `${none}.`) : warning('models', `${none} in this environment.`), ...checks]
}

/** Checks the default catalog file; a server may have been started with another. */
export async function checkCatalogFile(settings: Settings, io: Context): Promise<Check[]> {
  const { dataFolder, cwd, environment } = io
  const name = 'catalog_file'
  try {
    const source = await loadSource({ file: toCatalogFile(undefined, io), dataFolder, cwd })
    const { path } = source
    if (path === null) return []
    if (isApplied(settings, toDigest(source, version()))) return [ok(name, `${path} is applied.`)]
    // An applied catalog needs no YAML parser.
    const { parseSource } = await import('../../catalog/file.ts')
    await parseSource({ ...source, name: path }, environment)
    const plan = `tollgate catalog plan ${path}`
    return [ok(name, `${path} is valid but not applied. Preview: ${plan}`)]
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return [warning(name, toFileTrouble(error))]
  }
}

const EFFECT = "A running server is not affected, but a new one can't start."

function toFileTrouble({ failure, message }: ServiceError): string {
  if (failure.kind !== 'catalog_invalid') return `${message} ${EFFECT}`
  const { name, problems } = failure
  return `${name} has ${count(problems.length, 'problem')}. ${EFFECT} List them: tollgate catalog validate ${name}`
}

const DAYS = 30

/** Uses daily totals, including today. */
export async function checkPrices(reader: Pick<UsageReader, 'pages' | 'counts'>, nowMs: number): Promise<Check[]> {
  const at = reader.counts.indexOf('unpriced')
  const span = { fromMs: dayOf(nowMs) - (DAYS - 1) * DAY_MS, untilMs: dayOf(nowMs) + DAY_MS }
  const models = new Map<string, number>()
  for await (const cells of reader.pages({ from: 'days', span, by: ['model'], where: {} }))
    for (const { of, counts } of cells) {
      const unpriced = counts[at] ?? 0
      if (unpriced > 0) models.set(String(of[0]), (models.get(String(of[0])) ?? 0) + unpriced)
    }
  if (models.size === 0) return [ok('prices', `All usage in the last ${DAYS} days has a price.`)]
  const all = [...models.values()].reduce((sum, each) => sum + each, 0)
  const names = [...models].sort(([, a], [, b]) => b - a).map(([model]) => model)
  return [
    warning(
      'prices',
      `${count(all, 'request')} in the last ${DAYS} days had usage without a price (${toFew(names)}), so the actual cost may differ. Find them, marked with +: tollgate requests list --model ${names[0]}. See what lacks a price: tollgate requests show ID. Then add it to the model's pricing.`,
    ),
  ]
}
