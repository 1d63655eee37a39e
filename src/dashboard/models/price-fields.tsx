/** Prices as they are typed: dollars for a million tokens. */
import { toExactPrice } from '../figures/prices.ts'
import { type FormState, TextField } from '../ui/form.tsx'
import { type PriceValues, TYPED_PRICES } from './form-values.ts'
import { toPriceWord } from './words.ts'

export const PriceFields = <Values extends PriceValues & Record<string, string>>({
  form,
}: {
  form: FormState<Values>
}) => (
  <fieldset>
    <legend>Prices, for a million tokens</legend>
    <div class="fields">
      {TYPED_PRICES.map((name) => (
        <TextField
          key={name}
          of={form}
          name={name}
          label={toPriceWord(name)}
          before="$"
          inputMode="decimal"
          placeholder="as any prompt"
          hint={toExactPrice(form.values.value[name])}
        />
      ))}
    </div>
  </fieldset>
)
