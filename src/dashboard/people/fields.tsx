/** What one says of somebody who signs in. */
import { useTeams } from '../teams/data.ts'
import { type FormState, SelectField } from '../ui/form.tsx'
import type { PersonValues } from './data.ts'
import { ROLE_OPTIONS } from './words.ts'

export function PersonFields({ form }: { form: FormState<PersonValues> }) {
  const teams = useTeams().data ?? []
  return (
    <>
      <SelectField of={form} name="role" label="Role" options={ROLE_OPTIONS} />
      {form.values.value.role === 'member' && (
        <SelectField
          of={form}
          name="team"
          label="Team"
          hint={
            teams.length === 0
              ? 'There is none yet: make a team first. It says what their keys may use.'
              : 'It says what their keys may use, and shares its limits and its budget with them.'
          }
          options={[['', 'Choose one'], ...teams.map(({ id, name }) => [id, name] as const)]}
        />
      )}
    </>
  )
}
