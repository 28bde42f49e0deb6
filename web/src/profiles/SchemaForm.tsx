// A form made from a schema of openapi.json: one field for each property, with its description and its bounds.
import { useId, type JSX } from "react";

import { capital, plain } from "../ui/words";
import { MapField } from "./MapField";
import { fieldOf, resolved, schemaOf, type Field, type Schema } from "./schema";
import "./SchemaForm.css";

export interface FieldProblem {
  place: string;
  message: string;
}

type Value = Record<string, unknown>;

interface Props {
  /** A name of the schema, or the schema itself. */
  schema: string | Schema;
  value: Value;
  onChange: (value: Value) => void;
  problems: readonly FieldProblem[];
  /** Where this stands in the request, as the service names it in its problems. */
  place: string;
}

export function SchemaForm({ schema, value, onChange, problems, place }: Props): JSX.Element {
  const { properties = {}, required = [] } = typeof schema === "string" ? schemaOf(schema) : resolved(schema);
  return (
    <div className="form">
      {Object.entries(properties).map(([name, property]) => (
        <OneField
          key={name}
          name={name}
          field={fieldOf(property)}
          isRequired={required.includes(name)}
          value={value[name]}
          onChange={(item) => onChange({ ...value, [name]: item })}
          problems={problems.filter((problem) => isAt(problem.place, `${place}.${name}`))}
          place={`${place}.${name}`}
        />
      ))}
    </div>
  );
}

interface FieldProps {
  name: string;
  field: Field;
  isRequired: boolean;
  value: unknown;
  onChange: (value: unknown) => void;
  problems: readonly FieldProblem[];
  place: string;
}

function OneField(props: FieldProps): JSX.Element {
  const { name, field, value, onChange, problems, place } = props;
  const id = useId();
  const title = capital(plain(name));
  const { description } = field.schema;
  if (field.kind === "group") {
    return (
      <fieldset>
        <legend>{title}</legend>
        {description && <p className="small muted">{description}</p>}
        <SchemaForm schema={field.schema} value={(value ?? {}) as Value} onChange={onChange} problems={problems} place={place} />
      </fieldset>
    );
  }
  if (field.kind === "texts" || field.kind === "groups" || field.kind === "values") {
    return (
      <fieldset>
        <legend>{title}</legend>
        {description && <p className="small muted">{description}</p>}
        <MapField kind={field.kind} title={title} item={field.item} value={(value ?? {}) as Value} onChange={onChange} />
        <Told id={id} problems={problems} />
      </fieldset>
    );
  }
  return (
    <div className="field">
      <label htmlFor={id}>
        {title}
        {props.isRequired && <span className="muted small"> (needed)</span>}
      </label>
      <Input id={id} {...props} />
      {description && (
        <p id={`${id}-about`} className="small muted">
          {description}
        </p>
      )}
      <Told id={id} problems={problems} />
    </div>
  );
}

function Input({ id, field, isRequired, value, onChange, problems }: FieldProps & { id: string }): JSX.Element {
  const { schema, kind } = field;
  const shared = {
    id,
    required: isRequired,
    "aria-describedby": `${schema.description ? `${id}-about` : ""} ${problems.length > 0 ? `${id}-wrong` : ""}`.trim() || undefined,
    "aria-invalid": problems.length > 0 || undefined,
  };
  if (kind === "choice") {
    return (
      <select {...shared} value={String(value ?? schema.default ?? "")} onChange={(event) => onChange(event.target.value)}>
        {schema.enum?.map((choice) => (
          <option key={choice} value={choice}>
            {plain(choice)}
          </option>
        ))}
      </select>
    );
  }
  if (kind === "flag") {
    return <input {...shared} type="checkbox" checked={value === true} onChange={(event) => onChange(event.target.checked)} />;
  }
  if (kind === "number" || kind === "integer") {
    return (
      <input
        {...shared}
        type="number"
        step={kind === "integer" ? 1 : "any"}
        min={schema.minimum}
        max={schema.maximum}
        placeholder={schema.default === undefined || schema.default === null ? "" : String(schema.default)}
        value={typeof value === "number" ? value : ""}
        onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.valueAsNumber)}
      />
    );
  }
  return (
    <input
      {...shared}
      maxLength={schema.maxLength}
      spellCheck={false}
      placeholder={schema.examples?.[0] === undefined ? "" : `such as ${String(schema.examples[0])}`}
      value={typeof value === "string" ? value : ""}
      onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value)}
    />
  );
}

function Told({ id, problems }: { id: string; problems: readonly FieldProblem[] }): JSX.Element | null {
  if (problems.length === 0) return null;
  return (
    <p id={`${id}-wrong`} className="small field-wrong">
      {problems.map((problem) => problem.message).join("; ")}
    </p>
  );
}

function isAt(place: string, prefix: string): boolean {
  return place === prefix || place.startsWith(`${prefix}.`);
}
