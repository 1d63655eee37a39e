/** The models that somebody may try, with what they cost, and which of them are chosen: the address says it. */
import type { PricingItem } from '../../domain/usage.ts'
import { query } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { isMember } from '../api/session.ts'
import { chooseModels } from './choice.ts'

const FRESH_MS = 30_000

export interface OfferedModel {
  slug: string
  pricing: readonly PricingItem[]
  context_length: number
  input_modalities: readonly string[]
  is_ready: boolean | null
}

/** Those that answer in text, by the names under which they may be asked for. */
export const useModels = () =>
  useLoaded(
    'models to try',
    async (): Promise<OfferedModel[]> => {
      if (isMember()) {
        const { models } = await ask(api.own.models.get())
        return models.filter(writesText).map(({ id, ...facts }) => ({ ...facts, slug: id }))
      }
      const { models, aliases } = await ask(api.models.get())
      const offered = models.filter((model) => model.enabled && writesText(model))
      const others = aliases.flatMap(({ alias, model }) =>
        offered.filter(({ slug }) => slug === model).map((facts) => ({ ...facts, slug: alias })),
      )
      return [...offered, ...others]
    },
    { everyMs: FRESH_MS },
  )

const writesText = ({ output_modalities: modalities }: { output_modalities: readonly string[] }) =>
  modalities.includes('text')

/** The one or two that are chosen; none where there is none to choose. */
export const toChosen = (models: readonly OfferedModel[]): readonly string[] =>
  chooseModels(models, query.value.get('model'), query.value.get('beside'))

export const findModel = (models: readonly OfferedModel[] | null, slug: string | null): OfferedModel | null =>
  models?.find((model) => model.slug === slug) ?? null
