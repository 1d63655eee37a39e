/** `tollgate reconcile`: a provider's bill compared with the ledger. Runs in this process, on a read-only connection. */

import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { messageOf } from '../../domain/error.ts'
import type { JsonObject } from '../../domain/json.ts'
import { toSecureUrl, withoutSecrets } from '../../domain/setting-text.ts'
import { count, isVisible } from '../../domain/text.ts'
import { DAY_MS, dayOf, HOUR_MS, toDay } from '../../domain/time.ts'
import { readBehind } from '../../ledger/audit.ts'
import { type Bill, BillReader, readPages } from '../../ledger/reconcile/bill.ts'
import { type Account, type Cell, compareBill, isOf } from '../../ledger/reconcile/compare.ts'
import { toCorrections } from '../../ledger/reconcile/correct.ts'
import { findProvider, PROVIDERS, type Provider, providers } from '../../ledger/reconcile/providers.ts'
import type { UpstreamRow } from '../../store/catalog-rows.ts'
import type { CallReader, CallRef } from '../../store/report-store.ts'
import { answerOf, toBehindNote, withAdmin } from '../admin-client.ts'
import { CommandError, usageError } from '../command-error.ts'
import { flushServer } from '../control-client.ts'
import { type Context, printJson, toExamples, toPrintable, withStore } from '../io.ts'
import { toRounded } from '../money.ts'
import { sharedReports } from '../shared-ledger.ts'
import { createBar } from '../terminal.ts'
import { addParameters, collect, toMoment } from '../values.ts'
import { MAX_NAMED, toDocument, toText } from './text.ts'

export function addReconcile(command: Command, context: Context): void {
  command
    .argument('[files...]', 'JSON of the usage and cost API of one provider: OpenAI, Anthropic, or OpenRouter')
    .option('--provider <name>', `fetch it from ${PROVIDERS.join(', ')}, with the admin key in the environment`)
  addParameters(command, ['since', 'until'])
    .option('--upstream <id>', "upstream of the provider, unless it has the provider's own URL (repeatable)", collect)
    .option(
      '--credential <upstream=id>',
      "compare only this credential of an upstream with the provider's API key ID; UPSTREAM/2=ID for the second (repeatable)",
      collect,
    )
    .option('--tolerance <percent>', 'difference to accept per day, model, and figure', '0')
    .option('--take', 'record costs above those of the ledger as corrections; needs --reason and a running server')
    .option('--reason <text>', 'why, for the audit log')
    .option('--url <url>', "base URL of the provider's API, for a proxy")
    .addHelpText(
      'after',
      `\n${toKeys()}${toExamples(
        'reconcile usage.json costs.json --since 2026-11-01',
        'reconcile --provider anthropic --since 7d --credential anthropic=apikey_01Rj2N8SVvo6BePZj99NhmiT',
      )}`,
    )
    .action((files: string[], flags: Flags) => reconcile(files, flags, context))
}

const toKeys = () =>
  `Admin keys: ${Object.values(providers)
    .map(({ variable }) => variable)
    .join(', ')}. They read the whole organization: Tollgate neither stores nor logs them.\n`

interface Flags {
  provider?: string
  since?: string
  until?: string
  upstream?: string[]
  credential?: string[]
  tolerance: string
  take?: boolean
  reason?: string
  url?: string
}

async function reconcile(files: readonly string[], flags: Flags, io: Context): Promise<void> {
  const todayMs = dayOf(io.nowMs())
  const tolerancePpm = toPpm(flags.tolerance)
  const reason = toReason(flags)
  const asked = toSpan(flags, todayMs, io.nowMs())
  const { name, bill } = await readBill(files, flags, asked, todayMs, io)
  return withStore(io, { readonly: true }, async (store) => {
    const { config, audit } = store
    const { calls } = await sharedReports(io, store)
    const { upstreams } = await config.readCatalog()
    const accounts = toAccounts(flags, providers[name], upstreams)
    if (accounts.some(({ keyId }) => keyId !== null)) requireKeys(bill, accounts)
    const flushed = await flushServer(io.dataFolder)
    const behind = flushed ? { ...flushed, isServed: true } : readBehind(audit, io.dataFolder)
    const span = { ...asked, fromMs: Math.max(asked.fromMs, await toKeptDay(calls)) }
    if (span.fromMs > asked.fromMs) bill.notes.push(...toKeptNote(bill, span.fromMs))
    const compare = async () => {
      const bar = createBar(io, 'Comparing')
      const found = await compareBill(bill, withProgress(calls, bar), { accounts, tolerancePpm, span })
      bar.end()
      return found
    }
    const before = await compare()
    if (reason !== null) {
      bill.notes.push(await takeOver(before.cells, accounts, reason, io))
      await flushServer(io.dataFolder)
    }
    const found = reason === null ? before : await compare()
    const behindIt = await findRequests(calls, found.cells)
    if (io.json) printJson(io, toDocument(name, found, behindIt, bill.notes, behind.waiting))
    else {
      io.stderr(toBehindNote(behind) + bill.notes.map((note) => `note: ${toPrintable(note)}\n`).join(''))
      io.stdout(toText(found, behindIt, io))
    }
    if (found.days === 0)
      throw new CommandError('nothing_to_compare', 'The export has no whole UTC day of this period that is over.')
    const differing = found.cells.filter(({ isEqual }) => !isEqual).length
    if (differing > 0)
      throw new CommandError(
        'bill_differs',
        `The bill and the ledger differ in ${differing} of ${count(found.cells.length, 'line')}.`,
      )
  })
}

/** Null to import nothing. */
function toReason({ take = false, reason }: Flags): string | null {
  if (take !== (reason !== undefined)) throw usageError('Pass both --take and --reason, or neither.')
  const text = reason?.trim()
  if (text === undefined) return null
  if (text !== '' && text.length <= MAX_REASON && isVisible(text)) return text
  throw usageError(`--reason must be a text of up to ${MAX_REASON} characters, on one line.`)
}

const MAX_REASON = 200

async function takeOver(
  cells: readonly Cell[],
  accounts: readonly Account[],
  reason: string,
  io: Context,
): Promise<string> {
  if (accounts.some(({ upstreams }) => upstreams.length > 1))
    throw usageError('Corrections need one upstream: with --take, pass one --upstream, or --credential.')
  const corrections = toCorrections(cells)
  if (corrections.length === 0) return NOTHING_TAKEN
  const { taken, nanoUsd } = await withAdmin(io, {}, ({ operator }) =>
    answerOf(operator.ledger.corrections.post({ corrections, reason })),
  )
  return `Recorded ${count(taken, 'correction')}, ${toRounded(BigInt(nanoUsd))}. Details: tollgate audit log --action ledger`
}

const NOTHING_TAKEN = 'No line has a model and a cost above that of the ledger, so no correction was recorded.'

function toPpm(text: string): bigint {
  const [, whole, fraction = ''] = /^(\d{1,3})(?:\.(\d{1,4}))?%?$/.exec(text.trim()) ?? []
  if (whole === undefined || Number(whole) > 100)
    throw usageError(`--tolerance must be a percentage from 0 to 100, e.g. 0.5 (got '${text}').`)
  return BigInt(whole + fraction.padEnd(4, '0'))
}

function toSpan({ since, until, provider }: Flags, todayMs: number, nowMs: number) {
  // A provider's API needs a start; an export file has its own days.
  const first = provider === undefined ? 0 : todayMs - 7 * DAY_MS
  const fromMs = since === undefined ? first : dayOf(toMoment('--since', since, nowMs))
  const untilMs = until === undefined ? todayMs : Math.min(todayMs, dayOf(toMoment('--until', until, nowMs)))
  if (fromMs < untilMs) return { fromMs, untilMs }
  throw usageError('--since must be a day before --until, and before today: only days that are over are compared.')
}

type Span = ReturnType<typeof toSpan>

async function readBill(files: readonly string[], flags: Flags, span: Span, todayMs: number, io: Context) {
  if (files.length > 0 === (flags.provider !== undefined))
    throw usageError('Pass either files or --provider. Example: tollgate reconcile usage.json costs.json')
  if (flags.provider !== undefined) {
    const name = PROVIDERS.find((one) => one === flags.provider)
    if (name === undefined)
      throw usageError(`--provider must be one of ${PROVIDERS.join(', ')} (got '${flags.provider}').`)
    return { name, bill: await fetchWhole(providers[name], flags.url, span, todayMs, io) }
  }
  if (flags.url !== undefined) throw usageError('--url works only with --provider.')
  const pages: { page: JsonObject; file: string }[] = []
  for (const file of files)
    for (const page of readPages(await readFile(resolve(io.cwd, file), file), toPrintable(file)))
      pages.push({ page, file: toPrintable(file) })
  const name = findProvider(pages.map(({ page }) => page))
  if (name === null)
    throw new CommandError(
      'bill_unusable',
      "The files hold no usage or costs in the form of OpenAI's, Anthropic's, or OpenRouter's API.",
    )
  const reader = new BillReader(providers[name])
  for (const { page, file } of pages) reader.add(page, file)
  return { name, bill: reader.finish(todayMs) }
}

const MAX_FILE_BYTES = 64 * 1024 * 1024

async function readFile(path: string, file: string): Promise<string> {
  try {
    const { size } = await stat(path)
    if (size <= MAX_FILE_BYTES) return await Bun.file(path).text()
  } catch (error) {
    throw new CommandError('bill_unusable', `Can't read ${toPrintable(file)}: ${messageOf(error)}`)
  }
  throw new CommandError('bill_unusable', `${toPrintable(file)} is larger than 64 MiB. Export fewer days.`)
}

async function fetchWhole(provider: Provider, url: string | undefined, span: Span, todayMs: number, io: Context) {
  const { title, variable } = provider
  const credential = io.environment[variable]
  if (!credential)
    throw new CommandError(
      'no_admin_key',
      `${variable} is not set. It must hold a key of ${title} that may read usage and costs. Or pass files.`,
    )
  const baseUrl = url === undefined ? provider.baseUrl : toBaseUrl(url)
  const { fetchBill } = await import('../../server/outward/provider-bills.ts')
  const reader = new BillReader(provider)
  for await (const { page, part, source } of fetchBill(provider, { credential, baseUrl, ...span }))
    reader.add(page, `${title} ${source}`, part)
  return reader.finish(todayMs)
}

function toBaseUrl(text: string): string {
  const url = toSecureUrl(text)
  if (url !== null) return url.replace(/\/+$/, '')
  throw usageError(
    `--url must be a URL that begins with https://, without credentials, ?, and # (got '${withoutSecrets(text)}').`,
  )
}

function toAccounts({ upstream, credential }: Flags, provider: Provider, rows: readonly UpstreamRow[]): Account[] {
  if (credential !== undefined) {
    if (upstream !== undefined) throw usageError('Pass either --upstream or --credential.')
    return credential.map((text) => {
      const [, id = '', number, keyId = ''] = /^([^=/]+)(?:\/([1-9]\d{0,3}))?=(\S+)$/.exec(text) ?? []
      if (id === '') throw usageError(`--credential must be UPSTREAM=ID or UPSTREAM/NUMBER=ID (got '${text}').`)
      return {
        name: number === undefined ? id : `${id}/${number}`,
        upstreams: [id],
        credential: Number(number ?? 1),
        keyId,
      }
    })
  }
  const upstreams =
    upstream ??
    rows.filter(({ baseUrl }) => baseUrl && URL.parse(baseUrl)?.hostname === provider.host).map(({ id }) => id)
  if (upstreams.length === 0)
    throw new CommandError('no_upstream', `No upstream calls ${provider.host}. Pass its ID with --upstream.`)
  return [{ name: upstreams.join(', '), upstreams, credential: null, keyId: null }]
}

function requireKeys(bill: Bill, accounts: readonly Account[]): void {
  if (bill.usage.some(({ keyId }) => keyId === null))
    throw new CommandError(
      'bill_unusable',
      'The export does not say which API keys were used. Group it by api_key_id, or leave out --credential.',
    )
  const others = new Set(bill.usage.map(({ keyId }) => keyId)).difference(new Set(accounts.map(({ keyId }) => keyId)))
  if (others.size > 0) bill.notes.push(`Left out: the usage of ${count(others.size, 'other API key')}.`)
  if (bill.costs.some(({ keyId }) => keyId === null))
    bill.notes.push('The export does not say which API keys the costs are of, so money is not compared.')
}

/** The first day whose requests are all still recorded. */
async function toKeptDay(calls: CallReader): Promise<number> {
  const keptMs = await calls.keptFromMs()
  return keptMs === dayOf(keptMs) ? keptMs : dayOf(keptMs) + DAY_MS
}

const toKeptNote = ({ days: { usage, costs } }: Bill, fromMs: number) =>
  [...usage.union(costs)].some((dayMs) => dayMs < fromMs)
    ? [`Requests before ${toDay(fromMs)} were deleted (--retention), so earlier days are left out.`]
    : []

const withProgress = ({ sums }: CallReader, onHour: (done: number, of: number) => void): Pick<CallReader, 'sums'> => ({
  async *sums(span, upstreams) {
    let done = 0
    for await (const page of sums(span, upstreams)) {
      onHour(done++, (span.untilMs - span.fromMs) / HOUR_MS)
      yield page
    }
  },
})

const MAX_SCANNED = 10_000

/**
 * Requests that can explain each difference: those with an error, an estimate, or no price; all, if the bill lacks the
 * row.
 */
async function findRequests(calls: CallReader, cells: readonly Cell[]): Promise<Map<Cell, CallRef[]>> {
  const found = new Map<Cell, CallRef[]>()
  const differing = cells.filter(({ isEqual, upstreamModels }) => !isEqual && upstreamModels.length > 0)
  for (const [dayMs, ofDay] of Map.groupBy(differing, ({ dayMs }) => dayMs)) {
    const span = { fromMs: dayMs, untilMs: dayMs + DAY_MS }
    const upstreams = [...new Set(ofDay.flatMap(({ account }) => account.upstreams))]
    const doubtful = await calls.refs(span, upstreams, { models: null, limit: MAX_SCANNED })
    for (const cell of ofDay) {
      const { account, upstreamModels: models } = cell
      const listed =
        cell.only === 'ledger' ? await calls.refs(span, account.upstreams, { models, limit: MAX_NAMED * 10 }) : doubtful
      const own = listed.filter((ref) => isOf(account, ref) && models.includes(ref.upstreamModel))
      found.set(cell, own.sort((a, b) => Number(a.status === 'ok') - Number(b.status === 'ok')).slice(0, MAX_NAMED))
    }
  }
  return found
}
