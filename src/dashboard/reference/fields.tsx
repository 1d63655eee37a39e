/** The fields of a value, one below the other; what lies within one is unfolded there. */
import { useState } from 'preact/hooks'
import { Inline } from './prose.tsx'
import { type Field, type Schema, type Schemas, toShapes } from './schema.ts'

interface Told {
  schemas: Schemas
  /** Of what is sent, it is told which fields must be there; of what is answered, which may be missing. */
  isAnswer?: boolean
}

export const Inside = ({ of: schema, ...told }: Told & { of: Schema }) => (
  <>
    {toShapes(schema, told.schemas).map(({ title, fields }, index) => (
      <div key={index} class="shape">
        {title !== null && <p class="dim">{title}</p>}
        <Fields of={fields} {...told} />
      </div>
    ))}
  </>
)

export const Fields = ({ of: fields, ...told }: Told & { of: readonly Field[] }) => (
  <ul class="schema-fields">
    {fields.map((field) => (
      <Line key={field.name} of={field} {...told} />
    ))}
  </ul>
)

const Line = ({ of: field, ...told }: Told & { of: Field }) => (
  <li>
    <p class="schema-head">
      <code class="name">{field.name}</code>
      <span class="dim">{[field.type, ...field.bounds].join(', ')}</span>
      {field.isRequired && !told.isAnswer && <strong>required</strong>}
      {!field.isRequired && told.isAnswer && <span>may be missing</span>}
    </p>
    {field.description !== null && (
      <p>
        <Inline text={field.description} />
      </p>
    )}
    {field.words.length > 0 && (
      <p class="schema-words">
        {field.words.map((word) => (
          <code key={word}>{word}</code>
        ))}
      </p>
    )}
    {field.inside && <Folded name={field.name} of={field.inside} {...told} />}
  </li>
)

/** Drawn once it is unfolded: descriptions may be deep. */
function Folded({ name, ...inside }: Told & { name: string; of: Schema }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        Fields<span class="unseen"> of {name}</span>
      </summary>
      {isOpen && <Inside {...inside} />}
    </details>
  )
}
