/** `tollgate models`. Readiness comes from the running server, else from this environment. */

import type { Command } from 'commander'
import type { PriceOfModel, ShownModel, ShownRoute } from '../../documents/model.ts'
import { closest } from '../../domain/closest.ts'
import { toFigureText } from '../../domain/model-server.ts'
import { ENDPOINT_MODALITIES } from '../../domain/models.ts'
import { count, matches } from '../../domain/text.ts'
import {
  isByUnit,
  isOfTokens,
  PRICE_NAMES,
  PRICES,
  type PricingItem,
  toAudioTerms,
  toLeastPrices,
} from '../../domain/usage.ts'
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
    .description('list models with context, prices, status, and capabilities')
    .argument('[pattern...]', 'only models that match, e.g. openai/*')
    .option('--all', 'include models that are disabled, unlisted, or from a wildcard and not ready')
    .addHelpText('after', toExamples('models list', "models list 'openai/*' --all"))
    .action((patterns: string[], flags: { all?: boolean }) => list(patterns, flags, context))
  group
    .command('show')
    .description("show a model's details, prices, routes, and status")
    .argument('<id>', 'model ID or alias')
    .addHelpText('after', toExamples('models show tollgate/demo', 'models show openai/gpt-4o-mini --json'))
    .action((slug: string) => show(slug, context))
  group
    .command('add')
    .description('serve a local GGUF model; writes its config to models.d/')
    .argument('<path>', '.gguf file, any part of a split one, or folder with one model')
    .option('--name <id>', 'model ID (default: local/ plus the file name)')
    .option('--context <n>', 'context per request, tokens (default: what fits in memory, at most 32768)')
    .option('--slots <n>', 'concurrent requests (default 2)')
    .option('--memory <size>', 'memory to reserve, e.g. 4G (default: estimated)')
    .option('--device <name>', 'device to run on, e.g. CUDA0 or cpu, if the catalog sets memory per device')
    .option('--mmproj <file>', 'projector for image or audio input')
    .option('--catalog <file>', 'catalog of the server, if not the default, to check for duplicates')
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
    .description('remove a model added from a file (keeps the file)')
    .argument('<id>', 'model ID')
    .option('--plan', 'preview without deleting')
    .addHelpText('after', toExamples('models remove local/gemma', 'models remove local/gemma --plan'))
    .action(async (slug: string, flags: { plan?: boolean }) => (await import('./add.ts')).remove(slug, flags, context))
}

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
  const prices = shown.map(toOtherPrice)
  if (cells.length > 0) io.stdout(toListText(cells, prices, io))
  const hidden = models.filter((row) => isWanted(row.slug)).length - shown.length
  if (hidden > 0)
    io.stderr(
      `${count(hidden, 'model')} hidden: disabled, unlisted, or from a wildcard and not ready (show with --all).\n`,
    )
  else if (cells.length > 0) return
  else if (models.length > 0) io.stderr('No matching models. List all: tollgate models list --all\n')
  else
    io.stderr(
      'No models yet. Add a provider (tollgate upstreams add PROVIDER) or a local model (tollgate models add FILE).\n',
    )
}

const AS_FAR = 'Status is based on this environment.'

/** On a narrow terminal, capabilities go below. */
function toListText(rows: string[][], prices: readonly string[], io: Context): string {
  const hasPrices = prices.some(Boolean)
  const add = (row: string[], price = '') => (hasPrices ? row.toSpliced(AFTER_PRICES, 0, price) : row)
  const headings = add(MODEL_HEADINGS, OTHER_PRICE)
  const cells = rows.map((row, at) => add(row, prices[at]))
  const wide = toTable(headings, cells, io.paint)
  const fits = wide.split('\n').every((line) => Bun.stringWidth(line) <= io.columns())
  if (!io.isTerminal(1) || fits) return wide
  const can = headings.length - 1
  return toDescribedTable(
    headings.slice(0, can),
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
    const message = `Unknown model '${toPrintable(name)}'${hint}. List models: tollgate models list --all`
    throw new CommandError('unknown_model', message)
  })
  if (io.json) printJson(io, shown)
  else io.stdout(toModelText(shown, shown.aliases, shown.prices))
}

/** --json has all. */
const MAX_PRICES = 10

function toModelText(row: ShownModel, aliases: readonly string[], prices: readonly PriceOfModel[]): string {
  const facts: [what: string, text: string][] = [
    ['context', `${row.context_length} tokens, max output ${row.max_output_length}`],
    ['input', row.input_modalities.join(', ')],
    ['output', row.output_modalities.join(', ')],
    ['capabilities', row.supported_features.join(', ') || '-'],
    ['ready', row.reason === null ? (row.is_ready ? 'yes' : 'unknown (no server is running)') : `no: ${row.reason}`],
    ['aliases', aliases.join(', ') || '-'],
    ...row.routes.map((route): [string, string] => ['route', toRouteText(route, row)]),
    ...prices.slice(0, MAX_PRICES).map((price): [string, string] => ['price', toPriceText(price)]),
  ]
  if (prices.length > MAX_PRICES) facts.push(['', `${prices.length - MAX_PRICES} older (show with --json)`])
  return toFactLines(`${row.slug} (${row.name}, by ${row.owned_by})`, facts)
}

/** Such as `paid: large-v1, priority 0, weight 1; ready; own price: USD per …`. */
function toRouteText(route: ShownRoute, model: ShownModel): string {
  const { context_length: context, max_output_length: most } = route
  const isNarrow = context < model.context_length || most < model.max_output_length
  const parts = [
    `${route.upstream}: ${route.upstream_model}, priority ${route.priority}, weight ${route.weight}`,
    route.reason === null ? (route.is_ready ? 'ready' : '') : `not ready: ${route.reason}`,
    toServedText(route),
    isNarrow ? `context ${context} tokens, max output ${most}` : '',
    `${route.own_price ? 'own price: ' : ''}${model.pricing.length === 0 && !route.own_price ? 'price unknown' : toPrices(route.pricing)}`,
  ]
  return parts.filter(Boolean).join('; ')
}

/** Such as `server: ready, 4096 tokens of context, Q4_K_M`; '' if unknown. */
function toServedText({ served }: ShownRoute): string {
  const said = served === null ? [] : [served.state ?? '', toFigureText(served)].filter(Boolean)
  return said.length === 0 ? '' : `server: ${said.join(', ')}`
}

/** Such as `set 2026-11-21 12:00 UTC, current, only for paid; USD per …`. */
function toPriceText({ upstream, pricing, created_ms: ms, in_force: inForce }: PriceOfModel): string {
  const when = `set ${toTime(ms)} UTC${inForce ? ', current' : ''}${upstream === null ? '' : `, only for ${upstream}`}`
  return `${when}; ${toPrices(pricing)}`
}

/** Such as `mode flex, above 200000 prompt tokens`; '' for the default. */
export function toConditionText({ mode, size, quality, min_prompt_tokens: beyond }: Partial<PricingItem>): string {
  const parts = [
    ...[mode && `mode ${mode}`, size && `size ${size}`, quality && `quality ${quality}`],
    beyond && `above ${beyond} prompt tokens`,
  ]
  return parts.filter(Boolean).join(', ')
}

/**
 * Such as `USD per million tokens: prompt 1.25, completion 10; above 200000 prompt tokens: prompt 2.50, completion 15`, and
 * `size 1024x1024: $0.042 per generated image`.
 */
function toPrices(pricing: readonly PricingItem[]): string {
  if (pricing.length === 0) return 'free'
  const ofTokens = toConditional(pricing, (item, what, price) =>
    isOfTokens(what) && !isByUnit([item]) ? `${what} ${toPerMillion(price)}` : null,
  )
  const others = toConditional(pricing, (item, what, price) => {
    if (isOfTokens(what) || PRICES[what].word === null) return null
    const terms = what === 'audio_second' ? toAudioTerms(item) : ''
    return `$${price} per ${PRICES[what].word.toLowerCase().replace(/^per /, '')}${terms}`
  })
  return [...(ofTokens === '' ? [] : [`USD per million tokens: ${ofTokens}`]), ...(others === '' ? [] : [others])].join(
    '; ',
  )
}

const toConditional = (
  pricing: readonly PricingItem[],
  toText: (item: PricingItem, what: (typeof PRICE_NAMES)[number], price: string) => string | null,
): string =>
  pricing
    .flatMap((item) => {
      const parts = PRICE_NAMES.flatMap((what) => {
        const price = item[what]
        return price === undefined ? [] : (toText(item, what, price) ?? [])
      })
      const condition = toConditionText(item)
      return parts.length === 0 ? [] : `${condition === '' ? '' : `${condition}: `}${parts.join(', ')}`
    })
    .join('; ')

const MODEL_HEADINGS = ['MODEL', 'CONTEXT', '$/M IN', '$/M OUT', 'READY', 'CAPABILITIES']
/** Only if a model has such a price. */
const OTHER_PRICE = 'OTHER PRICE'
const AFTER_PRICES = MODEL_HEADINGS.indexOf('READY')

/** With the price of the first route. */
function toModelCells(row: ShownModel): string[] {
  const pricing = row.routes[0]?.pricing ?? row.pricing
  const [base] = pricing
  const isOther = isByUnit(pricing)
  const toPrice = (price = '0') => (row.pricing.length === 0 ? '?' : isOther ? '-' : toPerMillion(price))
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

const madeOf = ({ output_modalities: made }: ShownModel) =>
  made.filter(isSaid).map((one) => (ENDPOINT_MODALITIES.some((modality) => modality === one) ? one : `${one}-output`))

/** Such as `from $0.011 per generated image`; '' without one. */
const toOtherPrice = (row: ShownModel) =>
  toLeastPrices(row.routes[0]?.pricing ?? row.pricing)
    .map(({ usd, per, isOneOfSeveral }) => `${isOneOfSeveral ? 'from ' : ''}$${usd} per ${per}`)
    .join(', ')

const toReady = ({ is_ready: isReady }: ShownModel) => (isReady === null ? '-' : isReady ? 'yes' : 'no')

/** Such as `131k` or `1M`. */
const toTokens = (n: number) => (n < 999_500 ? `${Math.round(n / 1_000)}k` : `${Math.round(n / 100_000) / 10}M`)

/** USD per token to USD per million, exactly: `0.00000015` is `0.15`. */
export function toPerMillion(price: string): string {
  const [whole = '0', fraction = ''] = price.split('.')
  const digits = fraction.padEnd(6, '0')
  const dollars = `${whole}${digits.slice(0, 6)}`.replace(/^0+(?=\d)/, '')
  const rest = digits.slice(6).replace(/0+$/, '')
  return rest === '' ? dollars : `${dollars}.${rest.padEnd(2, '0')}`
}
