/** `tollgate alerts`: where alerts are sent. URLs are secrets: they are not shown again. */
import type { Command } from 'commander'
import type { DeliveryDocument, TargetDocument } from '../documents/alert.ts'
import {
  ALERT_FORMAT_NAMES,
  ALERT_FORMATS,
  ALERT_TOPIC_NAMES,
  type AlertFormat,
  type AlertTopic,
  isAlertFormat,
  isAlertTopic,
} from '../domain/alerts.ts'
import { toShortId } from '../domain/id.ts'
import { count } from '../domain/text.ts'
import { toAgo } from '../domain/time.ts'
import { answerOf, idOf, withAdmin } from './admin-client.ts'
import { CommandError, usageError } from './command-error.ts'
import { type Context, printJson, toDescribedTable, toExamples, toPrintable, toShort, toTable, toTime } from './io.ts'
import { toCount } from './values.ts'

const WHICH = 'target name, or 6+ digits of its ID'

interface AddFlags {
  name?: string
  format?: string
  only?: string
  urlStdin?: boolean
}

export function addAlerts(group: Command, context: Context): void {
  group
    .command('add')
    .description('add a target: a Slack-compatible webhook, or a receiver of signed JSON, whose secret is printed once')
    .argument('[url]', 'webhook URL; omit it to be prompted, since other users can read arguments')
    .option('--url-stdin', 'read the URL from stdin')
    .option('--name <name>', "name (default: the URL's host)")
    .option('--format <format>', `${toWords(ALERT_FORMATS)} (default: slack for hooks.slack.com, else json)`)
    .option('--only <topics>', `topics, separated by commas (default: all): ${ALERT_TOPIC_NAMES.join(', ')}`)
    .addHelpText(
      'after',
      toExamples('alerts add --name team-chat', 'alerts add https://ops.example.com/hook --only budget,upstream'),
    )
    .action((url: string | undefined, flags: AddFlags) => add(url, flags, context))
  group
    .command('list')
    .description('list targets with their last deliveries')
    .addHelpText('after', toExamples('alerts list', 'alerts list --json'))
    .action(() => list(context))
  group
    .command('remove')
    .description('remove a target with its deliveries')
    .argument('<target>', WHICH)
    .addHelpText('after', toExamples('alerts remove team-chat', 'alerts remove 4f9a21c8'))
    .action((which: string) => remove(which, context))
  group
    .command('test')
    .description('send a test message to one or all targets; exits 1 if one fails')
    .argument('[target]', WHICH)
    .addHelpText('after', toExamples('alerts test', 'alerts test team-chat'))
    .action((which: string | undefined) => test(which, context))
  group
    .command('log')
    .description('list deliveries, newest first')
    .option('--target <target>', WHICH)
    .option('--limit <n>', 'max rows, up to 200', '20')
    .addHelpText('after', toExamples('alerts log', 'alerts log --target team-chat --limit 100'))
    .action((flags: { target?: string; limit: string }) => log(flags, context))
}

const toWords = (words: Readonly<Record<string, string>>) =>
  Object.entries(words)
    .map(([word, says]) => `${word} (${says})`)
    .join(', ')

async function add(argument: string | undefined, { name, format, only, urlStdin }: AddFlags, io: Context) {
  const body = { format: readFormat(format), topics: readTopics(only), name: name ?? null }
  const url = await readUrl(argument, urlStdin === true, io)
  const added = await withAdmin(io, {}, ({ api }) => answerOf(api.alerts.post({ ...body, url })))
  if (io.json) return printJson(io, added)
  io.stderr(`Added alert target ${toTargetName(added)}: ${ALERT_FORMATS[added.format]}.\n`)
  if (added.secret !== null) {
    io.stderr("Save its signing secret now; it won't be shown again:\n")
    io.stdout(`${added.secret}\n`)
  }
  io.stderr(`Test it: tollgate alerts test ${toPrintable(added.name)}\n`)
}

async function readUrl(argument: string | undefined, isPiped: boolean, io: Context): Promise<string> {
  if (isPiped && argument !== undefined) throw usageError('Pass either a URL or --url-stdin, not both.')
  if (argument !== undefined) return argument
  const typed = isPiped ? await io.stdin() : await io.ask('Webhook URL (hidden): ', true)
  if (typed !== null && typed.trim() !== '') return typed.trim()
  throw new CommandError('no_url', 'No URL. Pass it, pipe it in with --url-stdin, or run in a terminal.', 2)
}

function readFormat(text: string | undefined): AlertFormat | null {
  if (text === undefined) return null
  if (isAlertFormat(text)) return text
  throw usageError(`--format must be ${ALERT_FORMAT_NAMES.join(' or ')} (got '${text}').`)
}

function readTopics(text: string | undefined): AlertTopic[] | null {
  const words = text?.split(',').map((word) => word.trim())
  if (words === undefined) return null
  return words.map((word) => {
    if (isAlertTopic(word)) return word
    throw usageError(`--only takes topics separated by commas: ${ALERT_TOPIC_NAMES.join(', ')} (got '${word}').`)
  })
}

const NONE = 'No alert targets yet. Add one: tollgate alerts add\n'

async function list(io: Context): Promise<void> {
  const { targets } = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.alerts.get()))
  if (io.json) return printJson(io, { targets })
  if (targets.length === 0) return io.stderr(NONE)
  const rows = targets.map(({ id, name, url, format, topics, last }) => [
    ...[toShortId(id), toShort(name), toPrintable(url), format, topics?.join(',') ?? 'all'],
    last === null ? 'nothing sent yet' : `${last.state} ${toAgo(last.at_ms, io.nowMs())}`,
  ])
  const notes = targets.map(({ last }) => [last?.error ? `Last error: ${toPrintable(last.error)}` : ''])
  io.stdout(toDescribedTable(['ID', 'NAME', 'URL', 'FORMAT', 'TOPICS', 'LAST'], rows, notes, io.paint))
}

async function remove(which: string, io: Context): Promise<void> {
  const removed = await withAdmin(io, {}, ({ api }) => answerOf(api.alerts(idOf(which)).delete()))
  if (io.json) return printJson(io, removed)
  io.stdout(`Removed alert target ${toTargetName(removed)}.\n`)
}

async function test(which: string | undefined, io: Context): Promise<void> {
  const deliveries = await withAdmin(io, {}, async ({ api }) => {
    const all = which === undefined ? (await answerOf(api.alerts.get())).targets.map(({ id }) => id) : [which]
    return Promise.all(all.map((one) => answerOf(api.alerts(idOf(one)).test.post())))
  })
  if (io.json) printJson(io, { deliveries })
  else if (deliveries.length === 0) io.stderr(NONE)
  else
    for (const { target, state, error } of deliveries)
      io.stdout(toPrintable(`${target}: ${error ?? state}`).concat('\n'))
  const failed = deliveries.filter(({ state }) => state !== 'delivered')
  if (failed.length > 0)
    throw new CommandError('not_delivered', `${count(failed.length, 'test message')} not delivered. Check the URL.`)
}

async function log({ target, limit }: { target?: string; limit: string }, io: Context): Promise<void> {
  const query = { limit: toCount('--limit', limit), ...(target === undefined ? {} : { target }) }
  const { deliveries } = await withAdmin(io, { readonly: true }, ({ api }) =>
    answerOf(api.alerts.deliveries.get({ query })),
  )
  if (io.json) return printJson(io, { deliveries })
  if (deliveries.length === 0) return io.stderr('No deliveries yet.\n')
  const rows = deliveries.map((one) => [
    toTime(one.at_ms),
    toShort(one.target),
    one.state,
    String(one.attempts),
    toWhat(one),
  ])
  io.stdout(toTable(['TIME (UTC)', 'TARGET', 'STATE', 'ATTEMPTS', 'ALERTS'], rows, io.paint))
}

/** On one line. */
function toWhat({ kind, alerts, more, error }: DeliveryDocument): string {
  const first = alerts[0]
  const rest = alerts.length - 1 + more
  const what = first ? `${first.status}: ${first.message}${rest > 0 ? ` And ${rest} more.` : ''}` : kind
  return toPrintable(error === null ? what : `${what} (${error})`)
}

const toTargetName = ({ id, name }: Pick<TargetDocument, 'id' | 'name'>) => `${toShortId(id)} (${toPrintable(name)})`
