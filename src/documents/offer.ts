/** Models that an upstream offers, in JSON, for forms that add them. */
import { type Static, Type } from '@sinclair/typebox'
import type { OfferedModel } from '../catalog/providers.ts'
import { CountOrNull, Flag, orNull, Text } from './fields.ts'
import { Pricing } from './model.ts'

const Offered = Type.Object({
  upstream_model: Text,
  slug: orNull(Type.String({ description: "Suggested model ID; null: the upstream's name for it makes none." })),
  name: Text,
  context_length: CountOrNull,
  ...{ input_modalities: Type.Array(Text), output_modalities: Type.Array(Text), supported_features: Type.Array(Text) },
  pricing: Type.Array(Pricing, { description: 'Known prices; empty: unknown.' }),
  is_usual: Flag,
})
export type ShownOffer = Static<typeof Offered>

/** `is_usual`: it chats, or has another endpoint and a known price. */
export const Offer = Type.Object({ models: Type.Array(Offered), notes: Type.Array(Text) })

export const toOfferDocument = ({ models, notes }: { models: readonly OfferedModel[]; notes: string[] }) => ({
  notes,
  models: models.map(
    ({ upstreamModel, slug, name, contextLength, pricing, isUsual, ...can }): ShownOffer => ({
      ...{ upstream_model: upstreamModel, slug, name, context_length: contextLength, pricing, is_usual: isUsual },
      input_modalities: [...can.inputModalities],
      output_modalities: [...can.outputModalities],
      supported_features: [...can.supportedFeatures],
    }),
  ),
})
