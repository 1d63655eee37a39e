/** Models as cells of a table, and prices as people read them. Pure. */
import type { ShownModel } from '../documents/model.ts'
import { toPrintable } from './io.ts'

export const MODEL_HEADINGS = ['MODEL', 'CONTEXT', '$/M IN', '$/M OUT', 'READY', 'CAN']

/** The cells of a row, under MODEL_HEADINGS. The price is that of its first route. */
export function toModelCells(row: ShownModel): string[] {
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
