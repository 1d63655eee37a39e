/**
 * `tollgate models list | show`: the models that may be asked for, from the database; whether they are ready, from the running
 * server, if one runs, else as far as the environment tells.
 */

import type { Command } from 'commander'
import { closest } from '../../catalog/entry.ts'
import type { PriceOfModel, ShownModel, ShownRoute } from '../../documents/model.ts'
import { toFigureText } from '../../domain/model-server.ts'
import { count, matches } from '../../domain/text.ts'
import { isOfTokens, type PricingItem } from '../../domain/usage.ts'
import { answerOf, withAdmin } from '../admin-client.ts'
import { CommandError } from '../command-error.ts'
import { noteServer } from '../control-client.ts'
import {
  type Context,
  printJson,
  toDescribedTable,
  toExamples,
  toFactLines,
  toPrintable,
  toTable,
  toTime,
} from '../io.ts'
import { toCatalogFile } from '../serve/serve.ts'
import type { ModelFlags } from './local-model.ts'

export function addModels(group: Command, context: Context): void {
  group
    .command('list')
    .description('list models: context, USD per million tokens, whether they are ready, what they can do')
    .argument('[pattern...]', 'those that match, such as openai/*')
    .option(
      '--all',
      'also those that are disabled, that GET /v1/models does not list, or that are of a wildcard and not ready',
    )
    .addHelpText('after', toExamples('models list', "models list 'openai/*' --all"))
    .action((patterns: string[], flags: { all?: boolean }) => list(patterns, flags, context))
  group
    .command('show')
    .description('show a model: facts, prices, routes, and why it is not ready')
    .argument('<slug>', 'its name, or another name that it has')
    .addHelpText('after', toExamples('models show tollgate/demo', 'models show openai/gpt-4o-mini --json'))
    .action((slug: string) => show(slug, context))
  group
    .command('add')
    .description(
      'have a model of a file served here: reads what it is, and says how it is run in models.d/ of the data folder',
    )
    .argument('<path>', 'a .gguf file, any part of one, or a folder with one model')
    .option('--name <slug>', 'what it is called (default: local/ and the name of its file)')
    .option('--context <n>', 'tokens of one request (default: what fits into the memory, at most 32768)')
    .option('--slots <n>', 'requests that it answers at a time (default 2)')
    .option('--memory <size>', 'what is planned for it, such as 4G (default: estimated)')
    .option(
      '--device <name>',
      'whose memory it takes, such as CUDA0 or cpu, where memory in the catalogue is by device',
    )
    .option('--mmproj <file>', 'the projector by which it reads pictures or sound')
    .option(
      '--catalog <file>',
      'the catalogue that the server begins with, if not a usual one: it must not have the same',
    )
    .addHelpText(
      'after',
      toExamples(
        'models add ./gemma-3-4b-it-Q4_K_M.gguf',
        'models add /models/gemma --name local/gemma --context 8192 --slots 4',
      ),
    )
    .action(async (path: string, { catalog, ...flags }: ModelFlags & { catalog?: string }) =>
      (await import('./add.ts')).add(path, { ...flags, catalog: toCatalogFile(catalog, context) }, context),
    )
  group
    .command('remove')
    .description('take away a model that was added from a file; that stays')
    .argument('<slug>', 'its name')
    .option('--plan', 'show what that would delete, and delete nothing')
    .addHelpText('after', toExamples('models remove local/gemma', 'models remove local/gemma --plan'))
    .action(async (slug: string, flags: { plan?: boolean }) => (await import('./add.ts')).remove(slug, flags, context))
}

/** @param all also those that are disabled, that no list of the API shows, and those of a wildcard that are not ready. */
export async function list(
  patterns: readonly string[],
  { all = false }: { all?: boolean },
  io: Context,
): Promise<void> {
  const { models, aliases, found } = await withAdmin(io, { readonly: true }, async ({ api, found }) => ({
    ...(await answerOf(api.models.get())),
    found,
  }))
  const isWanted = (name: string) => patterns.length === 0 || patterns.some((pattern) => matches(pattern, name))
  const isShown = (row: ShownModel) =>
    all || (row.enabled && row.listed && (!row.from_wildcard || row.is_ready !== false))
  const shown = models.filter((row) => isWanted(row.slug) && isShown(row))
  const others = aliases.filter((alias) => isWanted(alias.alias) && (all || alias.listed))
  if (io.json) return printJson(io, { models: shown, aliases: others })
  if (models.length > 0) noteServer(found, io, AS_FAR)
  const cells = [...shown.map(toModelCells), ...others.map(({ alias, model }) => [`${alias} = ${model}`])]
  if (cells.length > 0) io.stdout(toListText(cells, io))
  const hidden = models.filter((row) => isWanted(row.slug)).length - shown.length
  if (hidden > 0)
    io.stderr(`With --all: ${count(hidden, 'model')} more, disabled, not listed or of a wildcard and not ready.\n`)
  else if (cells.length > 0) return
  else if (models.length > 0) io.stderr('No model matches that. See all of them with: tollgate models list --all\n')
  else io.stderr('There are no models yet. Add those of a provider, or one from a file: upstreams add, models add\n')
}

const AS_FAR = 'What is ready is told as far as this environment knows.'

/** A line a model; what it can stands beneath it where a terminal is too narrow for that. */
function toListText(cells: string[][], io: Context): string {
  const wide = toTable(MODEL_HEADINGS, cells, io.paint)
  const fits = wide.split('\n').every((line) => Bun.stringWidth(line) <= io.columns())
  if (!io.isTerminal(1) || fits) return wide
  const can = MODEL_HEADINGS.length - 1
  return toDescribedTable(
    MODEL_HEADINGS.slice(0, can),
    cells.map((row) => row.slice(0, can)),
    cells.map((row) => [row[can] ?? '']),
    io.paint,
  )
}

export async function show(name: string, io: Context): Promise<void> {
  const shown = await withAdmin(io, { readonly: true }, async ({ api }) => {
    const { models, aliases } = await answerOf(api.models.get())
    const slug = aliases.find(({ alias }) => alias === name)?.model ?? name
    if (models.some((row) => row.slug === slug)) return answerOf(api.models({ slug: encodeURIComponent(slug) }).get())
    const hint = closest(name, [...models.map((row) => row.slug), ...aliases.map(({ alias }) => alias)])
    const message = `There is no model ${toPrintable(name)}${hint}. See them with: tollgate models list --all`
    throw new CommandError('unknown_model', message)
  })
  if (io.json) printJson(io, shown)
  else io.stdout(toModelText(shown, shown.aliases, shown.prices))
}

/** Of the prices of a model; --json has all. */
const MAX_PRICES = 10

/** All that is known of a model, a line each. */
function toModelText(row: ShownModel, aliases: readonly string[], prices: readonly PriceOfModel[]): string {
  const facts: [what: string, text: string][] = [
    ['context', `${row.context_length} tokens, at most ${row.max_output_length} of them written`],
    ['reads', row.input_modalities.join(', ')],
    ['writes', row.output_modalities.join(', ')],
    ['can', row.supported_features.join(', ') || '-'],
    ['ready', row.reason === null ? (row.is_ready ? 'yes' : 'only a running server knows') : `no: ${row.reason}`],
    ['aliases', aliases.join(', ') || '-'],
    ...row.routes.map((route): [string, string] => ['route', toRouteText(route, row)]),
    ...prices.slice(0, MAX_PRICES).map((price): [string, string] => ['price', toPriceText(price)]),
  ]
  if (prices.length > MAX_PRICES) facts.push(['', `${prices.length - MAX_PRICES} older ones: --json`])
  return toFactLines(`${row.slug} (${row.name}, by ${row.owned_by})`, facts)
}

/** Such as `paid: large-v1, priority 0, weight 1; ready; its own price: USD for …`. */
function toRouteText(route: ShownRoute, model: ShownModel): string {
  const { context_length: context, max_output_length: most } = route
  const isNarrow = context < model.context_length || most < model.max_output_length
  const parts = [
    `${route.upstream}: ${route.upstream_model}, priority ${route.priority}, weight ${route.weight}`,
    route.reason === null ? (route.is_ready ? 'ready' : '') : `not ready: ${route.reason}`,
    toServedText(route),
    isNarrow ? `${context} tokens, at most ${most} of them written` : '',
    `${route.own_price ? 'its own price: ' : ''}${model.pricing.length === 0 && !route.own_price ? 'its price is not known' : toPrices(route.pricing)}`,
  ]
  return parts.filter(Boolean).join('; ')
}

/** Such as `its server: ready, 4096 tokens of context, Q4_K_M`; '' where nothing is known of one. */
function toServedText({ served }: ShownRoute): string {
  const said = served === null ? [] : [served.state ?? '', toFigureText(served)].filter(Boolean)
  return said.length === 0 ? '' : `its server: ${said.join(', ')}`
}

/** Such as `since 2026-11-21 12:00, in force, on paid alone: USD for …`. */
function toPriceText({ upstream, pricing, created_ms: ms, in_force: inForce }: PriceOfModel): string {
  const when = `of ${toTime(ms)}${inForce ? ', in force' : ''}${upstream === null ? '' : `, of ${upstream} alone`}`
  return `${when}: ${toPrices(pricing)}`
}

/** For which calls an item holds, such as `served as flex, beyond 200000 prompt tokens`; '' for all that no other says. */
export function toConditionText({
  mode,
  min_prompt_tokens: beyond,
}: Pick<PricingItem, 'mode' | 'min_prompt_tokens'>): string {
  const parts = [
    mode === undefined ? '' : `served as ${mode}`,
    beyond === undefined ? '' : `beyond ${beyond} prompt tokens`,
  ]
  return parts.filter(Boolean).join(', ')
}

/** Such as `USD for a million tokens: prompt 1.25, completion 10; beyond 200000 prompt tokens: prompt 2.50, completion 15`. */
function toPrices(pricing: readonly PricingItem[]): string {
  if (pricing.length === 0) return 'free'
  const items = pricing.map(({ min_prompt_tokens: _, mode: __, ...prices }, at) => {
    const condition = toConditionText(pricing[at] ?? {})
    const parts = Object.entries(prices).map(([what, price]) =>
      isOfTokens(what) ? `${what} ${toPerMillion(String(price))}` : `${what} ${price} each`,
    )
    return `${condition === '' ? '' : `${condition}: `}${parts.join(', ')}`
  })
  return `USD for a million tokens: ${items.join('; ')}`
}

const MODEL_HEADINGS = ['MODEL', 'CONTEXT', '$/M IN', '$/M OUT', 'READY', 'CAN']

/** The cells of a row, under MODEL_HEADINGS. The price is that of its first route. */
function toModelCells(row: ShownModel): string[] {
  const [base] = row.routes[0]?.pricing ?? row.pricing
  const toPrice = (price = '0') => (row.pricing.length === 0 ? '?' : toPerMillion(price))
  return [
    toPrintable(row.slug),
    toTokens(row.context_length),
    toPrice(base?.prompt),
    toPrice(base?.completion),
    toReady(row),
    toPrintable([...row.supported_features, ...row.input_modalities.filter(isSaid), ...madeOf(row)].join(' ')),
  ]
}

const isSaid = (modality: string) => modality !== 'text'

/** What it makes, where that is another endpoint's. */
const madeOf = ({ output_modalities: made }: ShownModel) => made.filter((one) => one === 'embeddings')

const toReady = ({ is_ready: isReady }: ShownModel) => (isReady === null ? '-' : isReady ? 'yes' : 'no')

/** Such as `131k` or `1M`. */
const toTokens = (n: number) => (n < 999_500 ? `${Math.round(n / 1_000)}k` : `${Math.round(n / 100_000) / 10}M`)

/** USD a token as USD for a million of them, exactly: `0.00000015` is `0.15`. */
export function toPerMillion(price: string): string {
  const [whole = '0', fraction = ''] = price.split('.')
  const digits = fraction.padEnd(6, '0')
  const dollars = `${whole}${digits.slice(0, 6)}`.replace(/^0+(?=\d)/, '')
  const rest = digits.slice(6).replace(/0+$/, '')
  return rest === '' ? dollars : `${dollars}.${rest.padEnd(2, '0')}`
}
