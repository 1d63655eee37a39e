/** Whether all that was counted of late had a price: what is on record may not be what it cost. */
import { type Check, ok, toFew, warning } from '../documents/checks.ts'
import { count } from '../domain/text.ts'
import { DAY_MS, dayOf } from '../domain/time.ts'
import type { UsageReader } from '../store/report-store.ts'

const DAYS = 30

/** By the sums of whole days: those of the last so many, and of today. */
export function checkPrices(reader: Pick<UsageReader, 'pages' | 'counts'>, nowMs: number): Check[] {
  const at = reader.counts.indexOf('unpriced')
  const span = { fromMs: dayOf(nowMs) - (DAYS - 1) * DAY_MS, untilMs: dayOf(nowMs) + DAY_MS }
  const models = new Map<string, number>()
  for (const cells of reader.pages({ from: 'days', span, by: ['model'], where: {} }))
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
